// libethbcast for C++11 and later: handles that free themselves, exceptions that carry the status.
#ifndef ETHBCAST_HPP
#define ETHBCAST_HPP

#include "ethbcast.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ethbcast {

/// A call that failed: its status, and a sentence that says what to do.
class error : public std::runtime_error {
public:
    explicit error(ethbcast_status status) : std::runtime_error(ethbcast_error_message()), status_(status) {}
    ethbcast_status status() const noexcept { return status_; }

private:
    ethbcast_status status_;
};

inline void check(ethbcast_status status)
{
    if (status != ETHBCAST_STATUS_OK)
        throw error(status);
}

/// Named options; see ethbcast_options_set.
class options {
public:
    options() : handle_(make(), &ethbcast_options_free) {}
    options &set(const std::string &name, const std::string &value)
    {
        check(ethbcast_options_set(handle_.get(), name.c_str(), value.c_str()));
        return *this;
    }
    void cancel() const { check(ethbcast_options_cancel(handle_.get())); }
    ethbcast_options *get() const noexcept { return handle_.get(); }

private:
    static ethbcast_options *make()
    {
        ethbcast_options *handle = nullptr;
        check(ethbcast_options_new(&handle));
        return handle;
    }
    std::unique_ptr<ethbcast_options, void (*)(ethbcast_options *)> handle_;
};

/// A group of ranks that call each other; left when it is destroyed.
class communicator {
public:
    communicator(const std::string &group, std::uint16_t size, const options &how = options())
        : handle_(join(group, size, how), &leave)
    {
    }
    std::uint16_t rank() const noexcept { return ethbcast_rank(handle_.get()); }
    std::uint16_t size() const noexcept { return ethbcast_size(handle_.get()); }
    std::string host(std::uint16_t rank) const
    {
        const char *name = ethbcast_host(handle_.get(), rank);
        if (name == nullptr)
            throw std::out_of_range("there is no such rank");
        return name;
    }
    void broadcast(std::uint16_t root, void *buffer, std::size_t bytes) const
    {
        check(ethbcast_broadcast(handle_.get(), root, buffer, bytes));
    }
    template <typename T> void broadcast(std::uint16_t root, std::vector<T> &values) const
    {
        static_assert(std::is_trivially_copyable<T>::value, "bytes are copied as they are");
        broadcast(root, values.data(), values.size() * sizeof(T));
    }
    void barrier() const { check(ethbcast_barrier(handle_.get())); }
    void shrink() { check(ethbcast_shrink(handle_.get())); }
    void scatter(std::uint16_t root, const void *blocks, void *own, std::size_t bytes) const
    {
        check(ethbcast_scatter(handle_.get(), root, blocks, own, bytes));
    }
    void gather(std::uint16_t root, const void *own, void *blocks, std::size_t bytes) const
    {
        check(ethbcast_gather(handle_.get(), root, own, blocks, bytes));
    }
    void allgather(const void *own, void *blocks, std::size_t bytes) const
    {
        check(ethbcast_allgather(handle_.get(), own, blocks, bytes));
    }
    void reduce(std::uint16_t root, const char *function, const char *type, void *buffer, std::size_t bytes) const
    {
        check(ethbcast_reduce(handle_.get(), root, function, type, buffer, bytes));
    }
    void allreduce(const char *function, const char *type, void *buffer, std::size_t bytes) const
    {
        check(ethbcast_allreduce(handle_.get(), function, type, buffer, bytes));
    }
    void send(std::uint16_t to, std::uint32_t tag, const void *data, std::size_t bytes, double seconds = -1) const
    {
        check(ethbcast_send(handle_.get(), to, tag, data, bytes, seconds));
    }
    std::size_t recv(std::uint16_t from, std::uint32_t tag, void *buffer, std::size_t bytes, double seconds = -1) const
    {
        std::size_t received = 0;
        check(ethbcast_recv(handle_.get(), from, tag, buffer, bytes, &received, seconds));
        return received;
    }

private:
    static ethbcast_communicator *join(const std::string &group, std::uint16_t size, const options &how)
    {
        ethbcast_communicator *handle = nullptr;
        check(ethbcast_join(group.c_str(), size, how.get(), &handle));
        return handle;
    }
    static void leave(ethbcast_communicator *handle) { ethbcast_leave(handle); }
    std::unique_ptr<ethbcast_communicator, void (*)(ethbcast_communicator *)> handle_;
};

} // namespace ethbcast

#endif

// Every call of the communicator, from C++, with bytes that each rank checks: ranks SIZE.
#include <ethbcast.hpp>

#include <iostream>
#include <numeric>
#include <unistd.h>

static void require(bool holds, const char *what)
{
    if (!holds)
        throw std::runtime_error(what);
}

static void run(std::uint16_t size)
{
    ethbcast::options options;
    options.set("join-within", "20").set("call-within", "20");
    ethbcast::communicator all("ranks-cpp", size, options);
    const std::uint16_t rank = all.rank();
    require(all.host(rank) == "n" + std::to_string(rank), "ranks follow the hosts' names");

    std::vector<double> values(100001);
    if (rank == 1)
        std::iota(values.begin(), values.end(), 0.5);
    all.broadcast(1, values);
    for (std::size_t at = 0; at < values.size(); at++)
        require(values[at] == static_cast<double>(at) + 0.5, "broadcast");

    std::vector<std::uint32_t> blocks(size), own(1), back(size);
    std::iota(blocks.begin(), blocks.end(), 10u);
    all.scatter(0, blocks.data(), own.data(), sizeof(std::uint32_t));
    require(own[0] == 10u + rank, "scatter");
    own[0] += 1;
    all.gather(size - 1, own.data(), back.data(), sizeof(std::uint32_t));
    for (std::uint16_t other = 0; rank == size - 1 && other < size; other++)
        require(back[other] == 11u + other, "gather");
    all.allgather(own.data(), back.data(), sizeof(std::uint32_t));
    for (std::uint16_t other = 0; other < size; other++)
        require(back[other] == 11u + other, "allgather");
    double most = rank, sum[2] = {0.25, -1.0 * rank};
    all.reduce(1, "max", "f64", &most, sizeof most);
    require(most == (rank == 1 ? size - 1.0 : rank), "reduce");
    all.allreduce("sum", "f64", sum, sizeof sum);
    require(sum[0] == 0.25 * size && sum[1] == -0.5 * size * (size - 1), "allreduce");
    try {
        all.allreduce("mean", "f64", sum, sizeof sum);
        require(false, "there is no mean");
    } catch (const ethbcast::error &wrong) {
        require(wrong.status() == ETHBCAST_STATUS_USAGE, "a function that is none");
    }

    if (rank == 0) {
        char word[4];
        require(all.recv(1, 3, word, sizeof word, 10) == 2 && word[1] == 'k', "message");
        try {
            all.recv(1, 4, word, sizeof word, 0.05);
            require(false, "nobody sends under tag 4");
        } catch (const ethbcast::error &late) {
            require(late.status() == ETHBCAST_STATUS_NOBODY, "the time is up");
        }
    } else if (rank == 1) {
        all.send(0, 3, "ok", 2);
    }
    all.barrier();

    // The first rank dies; the others go on.
    if (rank == 0) {
        std::cout << "rank 0 is content" << std::endl;
        _exit(0);
    }
    try {
        all.barrier();
        require(false, "a rank is gone");
    } catch (const ethbcast::error &gone) {
        require(gone.status() == ETHBCAST_STATUS_GONE, "rank 0 is gone");
    }
    all.shrink();
    require(all.size() == size - 1 && all.rank() == rank - 1, "one rank less");
    require(all.host(0) == "n1", "in the old order");
    all.broadcast(1, values);
    all.allgather(own.data(), back.data(), sizeof(std::uint32_t));
    require(back[0] == 12u && back[1] == 13u, "allgather without the first");
    all.barrier();
    std::cout << "rank " << rank << " is content" << std::endl;
}

int main(int count, char **words)
{
    try {
        run(static_cast<std::uint16_t>(count > 1 ? std::stoi(words[1]) : 0));
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}

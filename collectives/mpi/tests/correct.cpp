// Collectives from C++, with what its standard library holds; every rank checks what it has got.
#include <complex>
#include <iostream>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <vector>

static void require(bool holds, const char *what)
{
    if (!holds)
        throw std::runtime_error(what);
}

static void run(int rank, int size)
{
    for (int root = 0; root < size; root++) {
        std::vector<std::complex<double>> wanted, here(1000);
        for (int at = 0; at < 1000; at++)
            wanted.emplace_back(at, root);
        if (rank == root)
            here = wanted;
        MPI_Bcast(here.data(), 1000, MPI_CXX_DOUBLE_COMPLEX, root, MPI_COMM_WORLD);
        require(here == wanted, "complex numbers");
        bool flags[3] = {rank == root, false, rank == root};
        MPI_Bcast(flags, 3, MPI_CXX_BOOL, root, MPI_COMM_WORLD);
        require(flags[0] && !flags[1] && flags[2], "truth values");
        std::string words(rank == root ? "words of a rank" : "               ");
        MPI_Bcast(&words[0], static_cast<int>(words.size()), MPI_CHAR, root, MPI_COMM_WORLD);
        require(words == "words of a rank", "words");
    }
    std::vector<long> all(size, -1);
    long own = rank * 3L;
    MPI_Allgather(&own, 1, MPI_LONG, all.data(), 1, MPI_LONG, MPI_COMM_WORLD);
    for (int at = 0; at < size; at++)
        require(all[at] == at * 3L, "the numbers of all");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **words)
{
    int rank, size;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    try {
        run(rank, size);
    } catch (const std::exception &error) {
        std::cerr << "rank " << rank << ": " << error.what() << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    if (rank == 0)
        std::cout << "c++: all is well" << std::endl;
    MPI_Finalize();
}

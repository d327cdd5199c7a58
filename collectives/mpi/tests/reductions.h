/* The part of correct.c that is about reductions: each is compared with the MPI's own, by PMPI. */

static const MPI_Op functions[] = {MPI_SUM, MPI_MIN, MPI_MAX};

/* Whole numbers in any type. Floats' sums are exact, and those of one and two bytes do not overflow: Open MPI saturates
   where it adds by AVX, and wraps elsewhere. */
static void number(unsigned char *into, int bytes, int is_float, int is_sum, long value)
{
    uint64_t spread = (uint64_t)value * 0x9e3779b97f4a7c15 >> (64 - 8 * bytes);
    uint64_t small = (uint64_t)(value + 5000) % (bytes == 1 ? 19 : 3000);
    if (is_float && bytes == 4)
        *(float *)into = (float)value;
    else if (is_float)
        *(double *)into = (double)value;
    else
        for (int at = 0; at < bytes; at++)
            into[at] = (unsigned char)((is_sum && bytes <= 2 ? small : spread) >> 8 * at);
}

/* Whether two buffers are alike; says where not. */
static int alike(const unsigned char *here, const unsigned char *wanted, size_t bytes, int line)
{
    size_t at = 0;
    while (at < bytes && here[at] == wanted[at])
        at++;
    if (at < bytes)
        fprintf(stderr, "rank %d, line %d: byte %zu of %zu is %d, not %d\n", rank, line, at, bytes, here[at], wanted[at]);
    return at == bytes;
}

/* One reduction of each kind: to all and to a root, in place and not. */
static void reduced(int count, MPI_Datatype type, int is_float, MPI_Op op, int root)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    size_t all = (size_t)count * bytes;
    unsigned char *own = malloc(all + 1), *wanted = malloc(all + 1), *here = malloc(all + 1), *same = malloc(all + 1);
    for (int at = 0; at < count; at++)
        number(own + (size_t)at * bytes, bytes, is_float, op == MPI_SUM, (rank * 7919L + at * 31L) % 10007 - 5000);
    memcpy(same, own, all);
    memset(wanted, 1, all + 1), memset(here, 1, all + 1);
    REQUIRE(PMPI_Allreduce(own, wanted, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(MPI_Allreduce(own, here, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(alike(here, wanted, all + 1, __LINE__) && alike(own, same, all, __LINE__));
    memcpy(here, own, all);
    REQUIRE(MPI_Allreduce(MPI_IN_PLACE, here, count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(alike(here, wanted, all + 1, __LINE__));
    memset(here, 1, all);
    REQUIRE(MPI_Reduce(own, rank == root ? here : NULL, count, type, op, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(alike(own, same, all, __LINE__) && (rank != root || alike(here, wanted, all + 1, __LINE__)));
    memcpy(here, own, all);
    REQUIRE(MPI_Reduce(rank == root ? MPI_IN_PLACE : own, here, count, type, op, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(alike(here, rank == root ? wanted : own, all, __LINE__) && here[all] == 1);
    free(own), free(wanted), free(here), free(same);
}

static void of_many(int *from, int *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int at = 0; at < *count; at++)
        into[at] = into[at] * 3 + from[at];
}

/* What is no function of numbers stays the MPI's. */
static void others(void)
{
    struct { double value; int at; } pair = {rank % 2, rank}, least = {-1, -1};
    MPI_Op made;
    MPI_Datatype twice;
    int own[4] = {rank + 1, 3, rank, 5}, here[4] = {0}, wanted[4] = {0};
    MPI_Allreduce(&pair, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    REQUIRE(least.value == 0 && least.at == 0);
    MPI_Op_create((MPI_User_function *)of_many, 0, &made);
    MPI_Type_contiguous(2, MPI_INT, &twice);
    MPI_Type_commit(&twice);
    PMPI_Allreduce(own, wanted, 4, MPI_INT, made, MPI_COMM_WORLD);
    MPI_Allreduce(own, here, 4, MPI_INT, made, MPI_COMM_WORLD);
    REQUIRE(memcmp(here, wanted, sizeof here) == 0);
    PMPI_Reduce(own, wanted, 2, twice, made, 1, MPI_COMM_WORLD);
    MPI_Reduce(own, here, 2, twice, made, 1, MPI_COMM_WORLD);
    REQUIRE(rank != 1 || memcmp(here, wanted, sizeof here) == 0);
    PMPI_Allreduce(own, wanted, 4, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
    MPI_Allreduce(own, here, 4, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
    REQUIRE(memcmp(here, wanted, sizeof here) == 0);
    MPI_Allreduce(own, here, 4, MPI_INT, MPI_MAX, MPI_COMM_SELF);
    REQUIRE(memcmp(here, own, sizeof here) == 0);
    MPI_Op_free(&made), MPI_Type_free(&twice);
}

static void reductions(void)
{
    MPI_Datatype types[] = {
        MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT,
        MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG,
        MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T,
        MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_INTEGER};
    int counts[] = {0, 1, 1000};
    for (size_t at = 0; at < sizeof types / sizeof *types; at++)
        for (int function = 0; function < 3; function++)
            for (int length = 0; length < 3; length++)
                reduced(counts[length], types[at], at < 4, functions[function], (int)(at + length) % size);
    for (size_t at = 0; at < sizeof types / sizeof *types; at += 3) {
        int bytes;
        MPI_Type_size(types[at], &bytes);
        reduced((1 << 20) / bytes + 1, types[at], at < 4, functions[at / 3 % 3], (int)at % size);
    }
    others();
}

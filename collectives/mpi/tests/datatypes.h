/* The part of correct.c that is about datatypes. */

/* Every named type of C, C++ and Fortran that this MPI has, whole buffers of it, and the pairs of MINLOC, which have gaps. */
static void named(void)
{
    MPI_Datatype types[] = {
        MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_WCHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT,
        MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_DOUBLE,
        MPI_LONG_DOUBLE, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T,
        MPI_UINT64_T, MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_C_BOOL, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX,
        MPI_C_LONG_DOUBLE_COMPLEX, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT,
        MPI_LONG_DOUBLE_INT, MPI_PACKED, MPI_C_COMPLEX, MPI_LONG_LONG_INT, MPI_CXX_BOOL, MPI_CXX_FLOAT_COMPLEX,
        MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_CHARACTER, MPI_LOGICAL, MPI_INTEGER, MPI_REAL,
        MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8,
        MPI_REAL4, MPI_REAL8, MPI_REAL16, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32, MPI_2REAL, MPI_2DOUBLE_PRECISION,
        MPI_2INTEGER};
    int there = 0;
    for (size_t at = 0; at < sizeof types / sizeof *types; at++) {
        if (types[at] == MPI_DATATYPE_NULL)
            continue;
        there++;
        MPI_Aint lower, extent;
        int bytes, count = 37, root = (int)at % size;
        MPI_Type_get_extent(types[at], &lower, &extent);
        MPI_Type_size(types[at], &bytes);
        unsigned char *sent = calloc(count, extent), *packed = calloc(count, bytes), *own = calloc(count, bytes);
        for (long byte = 0; byte < count * extent; byte++)
            sent[byte] = rank == root ? mark(byte, (int)at) : 0;
        REQUIRE(MPI_Bcast(sent, count, types[at], root, MPI_COMM_WORLD) == MPI_SUCCESS);
        int place = 0;
        MPI_Pack(sent, count, types[at], own, count * bytes, &place, MPI_COMM_WORLD);
        for (long byte = 0; byte < count * extent; byte++)
            sent[byte] = mark(byte, (int)at);
        place = 0;
        MPI_Pack(sent, count, types[at], packed, count * bytes, &place, MPI_COMM_WORLD);
        REQUIRE(memcmp(own, packed, place) == 0);
        free(sent), free(packed), free(own);
    }
    REQUIRE(there >= 55);
}

/* Three elements of a derived type from one rank to all: what lies in its gaps, and around it, stays as it was. */
static void derived_from(MPI_Datatype type, int root)
{
    enum { COUNT = 3 };
    MPI_Aint lower, extent, low, width;
    int bytes, place = 0;
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &low, &width);
    MPI_Type_size(type, &bytes);
    long reach = labs(extent) * COUNT + labs(low) + width, all = 2 * reach;
    unsigned char *sent = malloc(all), *here = calloc(all, 1), *wanted = calloc(all, 1), *packed = malloc(bytes * COUNT);
    for (long at = 0; at < all; at++)
        sent[at] = mark(at, root);
    MPI_Pack(sent + reach, COUNT, type, packed, bytes * COUNT, &place, MPI_COMM_WORLD);
    place = 0;
    MPI_Unpack(packed, bytes * COUNT, &place, wanted + reach, COUNT, type, MPI_COMM_WORLD);
    REQUIRE(MPI_Bcast((rank == root ? sent : here) + reach, COUNT, type, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(rank == root || memcmp(here, wanted, all) == 0);
    MPI_Type_free(&type);
    free(sent), free(here), free(wanted), free(packed);
}

/* Every constructor that the standard has, also with negative strides and bounds. */
static void constructors(void)
{
    int lengths[] = {2, 1, 3}, places[] = {0, 4, 9}, sizes[] = {5, 6, 7}, parts[] = {2, 3, 4}, from[] = {1, 2, 3};
    int spread[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, each[] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[] = {2, 2};
    MPI_Aint far[] = {0, 40, -64};
    MPI_Datatype mixed[] = {MPI_INT, MPI_DOUBLE, MPI_SHORT}, made;
    for (int kind = 0; kind < 12; kind++) {
        switch (kind) {
        case 0: MPI_Type_contiguous(7, MPI_SHORT_INT, &made); break;
        case 1: MPI_Type_vector(4, 2, 3, MPI_INT, &made); break;
        case 2: MPI_Type_vector(4, 1, -3, MPI_DOUBLE, &made); break;
        case 3: MPI_Type_create_hvector(4, 1, -24, MPI_DOUBLE, &made); break;
        case 4: MPI_Type_indexed(3, lengths, places, MPI_FLOAT, &made); break;
        case 5: MPI_Type_create_hindexed(3, lengths, far, MPI_INT, &made); break;
        case 6: MPI_Type_create_indexed_block(3, 2, places, MPI_LONG, &made); break;
        case 7: MPI_Type_create_hindexed_block(3, 2, far, MPI_INT, &made); break;
        case 8: MPI_Type_create_struct(3, lengths, far, mixed, &made); break;
        case 9: MPI_Type_create_subarray(3, sizes, parts, from, MPI_ORDER_FORTRAN, MPI_INT, &made); break;
        case 10: MPI_Type_create_darray(4, 3, 2, sizes, spread, each, grid, MPI_ORDER_C, MPI_INT, &made); break;
        case 11: MPI_Type_create_resized(MPI_INT, -8, 32, &made); break;
        }
        for (int root = 0; root < size; root++) {
            MPI_Datatype again;
            MPI_Type_dup(made, &again);
            derived_from(again, root);
        }
        MPI_Type_free(&made);
    }
}

/* A vector at the root, contiguous elsewhere; a struct; a type resized; gaps stay as they were. */
static void derived(void)
{
    enum { ROWS = 301, WIDTH = 5 };
    MPI_Datatype column, pair, wide;
    MPI_Type_vector(ROWS, 2, WIDTH, MPI_INT, &column);
    MPI_Type_commit(&column);
    int *matrix = malloc(sizeof(int) * ROWS * WIDTH), *line = malloc(sizeof(int) * ROWS * 2);
    for (int at = 0; at < ROWS * WIDTH; at++)
        matrix[at] = rank == 0 ? at : -7;
    if (rank % 2 == 0) {
        MPI_Bcast(matrix, 1, column, 0, MPI_COMM_WORLD);
        for (int at = 0; at < ROWS * WIDTH; at++)
            REQUIRE(matrix[at] == (rank == 0 || at % WIDTH < 2 ? at : -7));
    } else {
        MPI_Bcast(line, 2 * ROWS, MPI_INT, 0, MPI_COMM_WORLD);
        for (int at = 0; at < 2 * ROWS; at++)
            REQUIRE(line[at] == at / 2 * WIDTH + at % 2);
    }
    struct record { char letter; double number; } records[50];
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Aint places[] = {offsetof(struct record, letter), offsetof(struct record, number)};
    int lengths[] = {1, 1};
    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_create_resized(pair, 0, sizeof(struct record), &wide);
    MPI_Type_commit(&wide);
    memset(records, 0x55, sizeof records);
    for (int at = 0; at < 50 && rank == size - 1; at++)
        records[at].letter = (char)at, records[at].number = at / 8.0;
    MPI_Bcast(records, 50, wide, size - 1, MPI_COMM_WORLD);
    for (int at = 0; at < 50; at++) {
        REQUIRE(records[at].letter == (char)at && records[at].number == at / 8.0);
        REQUIRE(((unsigned char *)&records[at])[1] == 0x55);
    }
    MPI_Type_free(&column), MPI_Type_free(&pair), MPI_Type_free(&wide);
    free(matrix), free(line);
}

/* What a broadcast of 256 bytes costs a rank that is alone in its group, in nanoseconds: the least mean of many batches. */
#include <ethbcast.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void)
{
    ethbcast_communicator *alone = NULL;
    unsigned char bytes[256] = {0};
    double least = 1e18;
    if (ethbcast_join("alone", 1, NULL, &alone) != ETHBCAST_STATUS_OK) {
        fprintf(stderr, "%s\n", ethbcast_error_message());
        return 1;
    }
    for (int batch = 0; batch < 50; batch++) {
        double began = now();
        for (int call = 0; call < 100; call++)
            if (ethbcast_broadcast(alone, 0, bytes, sizeof bytes) != ETHBCAST_STATUS_OK)
                return 2;
        double took = (now() - began) / 100;
        least = took < least ? took : least;
    }
    printf("%.0f\n", least);
    return ethbcast_leave(alone) == ETHBCAST_STATUS_OK ? 0 : 3;
}

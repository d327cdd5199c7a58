"""Run on all hosts of a lab at once: each test is a group of its own, in which every host is a rank."""

import array
import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time

import ethbcast
import numpy as np
import pytest

# Whoever is started in the background by a shell inherits that Ctrl-C is ignored, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)

SIZE = int(os.environ["ETHBCAST_TEST_HOSTS"])


@pytest.fixture
def ranks(request):
    with ethbcast.Communicator.join(request.node.name, SIZE, join_within=30, call_within=20) as ranks:
        yield ranks


@pytest.fixture
def interrupt_soon():
    """Has Ctrl-C pressed 200 ms after it was called."""

    def press():
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    return press


def test_ranks_are_in_the_order_of_names(ranks):
    assert ranks.hosts == [f"n{host}" for host in range(SIZE)]
    assert ranks.size == SIZE and ranks.host == f"n{ranks.rank}"
    assert repr(ranks) == f"<ethbcast.Communicator rank {ranks.rank} of {SIZE} on n{ranks.rank}>"


def test_numbers_are_combined_in_place(ranks):
    numbers = np.arange(300_000) + ranks.rank
    for kind in [np.float64, np.float32, np.int32, np.uint16, np.int8]:
        values = (numbers % 100).astype(kind)
        expected = sum(((np.arange(300_000) + rank) % 100).astype(kind) for rank in range(SIZE))
        ranks.allreduce(values)
        assert (values == expected.astype(kind)).all(), kind
    least = array.array("d", [ranks.rank, -ranks.rank])
    ranks.reduce(least, "min", root=1)
    assert list(least) == ([0, 1 - SIZE] if ranks.rank == 1 else [ranks.rank, -ranks.rank])
    most = bytearray([ranks.rank, 255 - ranks.rank])
    ranks.allreduce(most, "max", type="i8")
    assert list(most) == [SIZE - 1, 255]
    for buffer, op in [(np.zeros(2, dtype=bool), "sum"), (np.zeros(2, dtype=">f8"), "sum"), (np.zeros(2), "mean")]:
        with pytest.raises(ValueError, match="type|no mean of f64"):
            ranks.allreduce(buffer, op)


def test_whatever_has_memory_is_broadcast_in_place(ranks):
    fields = np.dtype([("key", "<u8"), ("weight", "<f4")])
    kinds = [
        lambda fill: bytearray([fill] * 1000),
        lambda fill: array.array("d", [fill] * 1000),
        lambda fill: np.full((10, 20, 3), fill, dtype=np.float32),
        lambda fill: np.full(500, fill).astype(fields),
        lambda fill: np.full((40, 40), fill)[10:20],
        lambda fill: bytearray(),
    ]
    for root in range(SIZE):
        for kind in kinds:
            here = kind(7 if ranks.rank == root else 0)
            at = np.asarray(memoryview(here)).ctypes.data
            ranks.broadcast(here, root)
            assert bytes(here) == bytes(kind(7)) and np.asarray(memoryview(here)).ctypes.data == at


class Tensor:
    """What a package that has only DLPack passes."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_tensors_and_types_without_a_buffer_are_broadcast_in_place(ranks):
    def is_root():
        return ranks.rank == 1

    values = np.full((3, 4, 5), 7 if is_root() else 0, dtype=np.float16)
    ranks.broadcast(Tensor(values), root=1)
    assert (values == 7).all()
    one = np.array(3.5 if is_root() else 0.0)
    assert one.ndim == 0
    ranks.broadcast(one, root=1)
    assert one == 3.5
    ranks.broadcast(Tensor(one), root=1)
    days = np.full(10, 5 if is_root() else 0).astype("datetime64[D]")
    ranks.broadcast(days, root=1)
    assert (days == np.datetime64(5, "D")).all()
    empty = Tensor(np.zeros((0, 3)))
    ranks.broadcast(empty, root=1)
    for gaps in (Tensor(np.zeros((4, 6))[:, ::2]), Tensor(np.zeros((4, 6)).T), days[::2]):
        with pytest.raises(BufferError, match="not contiguous"):
            ranks.broadcast(gaps)
    away = Tensor(values)
    away.__class__ = type("Away", (Tensor,), {"__dlpack_device__": lambda self: (2, 0)})
    with pytest.raises(TypeError, match="x.cpu"):
        ranks.broadcast(away)


def test_a_long_array_comes_whole(ranks):
    values = np.random.default_rng(1).random(1 << 19)
    here = values.copy() if ranks.rank == 1 else np.zeros_like(values)
    ranks.broadcast(here, root=1)
    assert np.array_equal(here, values)


def test_blocks_go_out_and_come_back(ranks):
    own, root = np.zeros(100, dtype=np.int32), SIZE - 1
    blocks = np.arange(100 * SIZE, dtype=np.int32) if ranks.rank == root else None
    ranks.scatter(blocks, own, root)
    assert np.array_equal(own, np.arange(100) + 100 * ranks.rank)
    back = np.zeros(100 * SIZE, dtype=np.int32)
    ranks.gather(own, back if ranks.rank == root else None, root=root)
    assert ranks.rank != root or np.array_equal(back, blocks)
    ranks.allgather(own, back)
    assert np.array_equal(back, np.arange(100 * SIZE))


def test_a_message_goes_around_the_ring(ranks):
    token, place = b"around", bytearray(10)
    after, before = (ranks.rank + 1) % SIZE, (ranks.rank - 1) % SIZE
    if ranks.rank == 0:
        ranks.send(token, after, tag=3)
    assert ranks.recv(place, before, tag=3, within=10) == 6 and place[:6] == token
    if ranks.rank != 0:
        ranks.send(place[:6], after, 3)


def test_messages_of_threads_go_beside_each_other(ranks):
    def talk(tag):
        place = bytearray(4)
        for turn in range(20):
            if ranks.rank == 0:
                ranks.send(turn.to_bytes(4, "little"), 1, tag)
                assert ranks.recv(place, 1, tag) == 4
            elif ranks.rank == 1:
                assert ranks.recv(place, 0, tag) == 4
                ranks.send(place, 0, tag)
            assert ranks.rank > 1 or int.from_bytes(place, "little") == turn
        done.append(tag)

    done = []
    threads = [threading.Thread(target=talk, args=(tag,)) for tag in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2]


def test_what_cannot_be_is_refused_and_the_group_goes_on(ranks):
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    for fixed in (b"bytes", frozen):
        with pytest.raises(BufferError, match="read-only"):
            ranks.broadcast(fixed)
    with pytest.raises(BufferError, match="not contiguous"):
        ranks.broadcast(np.zeros((4, 4)).T)
    with pytest.raises(TypeError, match="Python objects"):
        ranks.broadcast(np.array([None]))
    with pytest.raises(TypeError):
        ranks.broadcast("text")
    blocks = np.zeros(10 * SIZE)
    with pytest.raises(BufferError, match="same memory"):
        ranks.allgather(blocks[:10], blocks)
    with pytest.raises(ValueError, match="no time"):
        ranks.send(b"", 0, within=-1)
    if ranks.rank == 0:
        with pytest.raises(ValueError, match="root"):
            ranks.scatter(None, blocks)
    with pytest.raises(ethbcast.Error, match=f"{SIZE}") as raised:
        ranks.broadcast(blocks, root=SIZE)
    assert raised.value.status is ethbcast.Status.USAGE
    with pytest.raises(ethbcast.Error, match="not done within") as raised:
        ranks.recv(bytearray(1), (ranks.rank + 1) % SIZE, within=0.05)
    assert raised.value.status is ethbcast.Status.NOBODY
    ranks.barrier()
    place = bytearray(2)
    if ranks.rank == 0:
        ranks.send(b"long", 1)
    elif ranks.rank == 1:
        with pytest.raises(ethbcast.Error, match="has 4 bytes, the buffer 2") as raised:
            ranks.recv(place, 0)
        assert raised.value.status is ethbcast.Status.TOO_LONG


def test_other_threads_run_while_a_call_waits(ranks):
    if ranks.rank == 0:
        time.sleep(0.5)
        ranks.barrier()
        return
    count = 0

    def run():
        nonlocal count
        while not over.wait(0.01):
            count += 1

    over = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        ranks.barrier()
    finally:
        over.set()
        thread.join()
    assert count >= 5, "the barrier kept the interpreter to itself"


def test_a_receive_is_interrupted_at_once_and_the_group_goes_on(ranks, interrupt_soon):
    place = bytearray(100)
    if ranks.rank == 1:
        interrupt_soon()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ranks.recv(place, 0, within=30)
        assert time.monotonic() - began < 10
    ranks.barrier()
    if ranks.rank == 0:
        ranks.send(b"afterwards", 1)
    elif ranks.rank == 1:
        assert ranks.recv(place, 0) == 10 and place[:10] == b"afterwards"


def test_a_barrier_is_interrupted_at_once_and_all_hear_of_it(interrupt_soon, request):
    ranks = ethbcast.Communicator.join(request.node.name, SIZE, join_within=30, call_within=60)
    began = time.monotonic()
    if ranks.rank == 1:
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            ranks.barrier()
    else:
        # The last rank does not come, or there would be nothing to interrupt.
        if ranks.rank == SIZE - 1:
            time.sleep(1)
        with pytest.raises(ethbcast.Error, match="n1"):
            ranks.barrier()
    assert time.monotonic() - began < 30
    time.sleep(1)
    ranks.close()


def test_a_join_is_interrupted_at_once(interrupt_soon, request):
    interrupt_soon()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ethbcast.Communicator.join(f"{request.node.name}-{os.environ['ETHBCAST_TEST_HOST']}", 2)
    assert time.monotonic() - began < 10


def test_calls_that_differ_are_named(request):
    ranks = ethbcast.Communicator.join(request.node.name, SIZE, join_within=30)
    with pytest.raises(ethbcast.Error, match="bytes") as raised:
        # Who sends has handed its bytes over before it hears what the others call for.
        ranks.broadcast(bytearray(10 + ranks.rank))
        ranks.barrier()
    assert raised.value.status is ethbcast.Status.MISMATCH
    time.sleep(1)
    ranks.close()


def test_whoever_is_first_waits_for_the_others_and_then_is_closed(request):
    with ethbcast.Communicator.join(request.node.name, SIZE, join_within=30) as ranks:
        here = np.full(1 << 18, 1 + ranks.rank, dtype=np.int64)
        ranks.broadcast(here)
    assert (here == 1).all()
    with pytest.raises(ethbcast.Error) as raised:
        ranks.barrier()
    assert raised.value.status is ethbcast.Status.USAGE
    ranks.close()
    assert ranks.size == SIZE


def in_a_fork(work):
    """Returns the exit code of a forked child that does nothing else."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except SystemExit as ended:
            os._exit(ended.code)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_has_no_part_in_its_parents_group(request, capfd):
    def every_call(ranks):
        calls = [ranks.barrier, lambda: ranks.broadcast(bytearray(8))]
        calls += [lambda: ranks.send(b"x", 1), lambda: ranks.recv(bytearray(8), 1), ranks.close]
        for call in calls:
            with pytest.raises(ethbcast.Error, match="is a fork of process") as raised:
                call()
            assert raised.value.status is ethbcast.Status.USAGE

    def leave_by_an_end(ranks):
        with ranks:
            sys.exit(3)

    def leave(ranks):
        with pytest.raises(ethbcast.Error, match="is a fork of process"):
            with ranks:
                pass

    with ethbcast.Communicator.join(request.node.name, SIZE, join_within=30, call_within=20) as ranks:
        values = np.zeros(1000)
        works = [(every_call, 0), (leave_by_an_end, 3), (leave, 0), (lambda ranks: None, 0)]
        for point in range(20):
            # Before a broadcast, between it and a barrier, or behind both.
            work, code = works[point % 4]
            fork_at = [ranks.rank == 0 and point % 3 == at for at in range(3)]
            assert not fork_at[0] or in_a_fork(lambda: work(ranks)) == code
            values[:] = point + 1 if ranks.rank == 0 else 0
            ranks.broadcast(values)
            assert not fork_at[1] or in_a_fork(lambda: work(ranks)) == code
            assert (values == point + 1).all()
            ranks.barrier()
            assert not fork_at[2] or in_a_fork(lambda: work(ranks)) == code
    assert "panicked" not in capfd.readouterr().err


def meet(group, size):
    with ethbcast.Communicator.join(group, size, join_within=30, call_within=20) as ranks:
        here = bytearray([7 if ranks.rank == 0 else 0] * 100)
        ranks.broadcast(here)
        sys.exit(0 if here == bytes([7] * 100) else 1)


@pytest.mark.parametrize("way", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing_join(ranks, way):
    child = multiprocessing.get_context(way).Process(target=meet, args=(f"child-{way}", SIZE))
    child.start()
    ranks.barrier()
    child.join(60)
    assert child.exitcode == 0


def test_a_handle_ends_a_receive_and_the_group_goes_on(ranks):
    cancel = ethbcast.Cancel()
    threading.Timer(0.2, cancel.cancel).start()
    for handle in (cancel, cancel, ethbcast.Cancel(after=0.1)):
        with pytest.raises(ethbcast.Error) as raised:
            ranks.recv(bytearray(8), (ranks.rank + 1) % SIZE, cancel=handle)
        assert raised.value.status is ethbcast.Status.CANCELLED
    with pytest.raises(ValueError, match="no time"):
        ethbcast.Cancel(after=-1)
    ranks.barrier()


def test_a_handle_ends_a_join_and_a_collective(request):
    with pytest.raises(ethbcast.Error) as raised:
        ethbcast.Communicator.join(f"alone-{os.environ['ETHBCAST_TEST_HOST']}", 2, cancel=ethbcast.Cancel(after=0.1))
    assert raised.value.status is ethbcast.Status.CANCELLED
    ranks = ethbcast.Communicator.join(request.node.name, SIZE, join_within=30)
    if ranks.rank == 0:
        time.sleep(1)
        with pytest.raises(ethbcast.Error) as raised:
            ranks.barrier()
        assert raised.value.failed and "n0" not in raised.value.failed
    else:
        with pytest.raises(ethbcast.Error) as raised:
            ranks.barrier(cancel=ethbcast.Cancel(after=0.1))
        assert raised.value.status in (ethbcast.Status.CANCELLED, ethbcast.Status.SOME_FAILED)
    time.sleep(1)
    ranks.close()


def test_calls_are_awaited_and_end_with_their_tasks(request):
    async def run():
        ranks = await ethbcast.Communicator.ajoin(request.node.name, SIZE, join_within=30, call_within=20)
        after, before = (ranks.rank + 1) % SIZE, (ranks.rank - 1) % SIZE
        here = np.full(1000, 1 + ranks.rank)
        await ranks.abroadcast(here)
        assert (here == 1).all()
        place, waited = bytearray(8), asyncio.create_task(ranks.arecv(bytearray(8), before, 5))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ranks.arecv(place, before), 0.2)
        waited.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waited
        _, count = await asyncio.gather(ranks.asend(b"around", after, 3), ranks.arecv(place, before, 3))
        assert count == 6 and place[:6] == b"around"
        blocks = np.zeros(SIZE)
        await ranks.aallgather(np.full(1, float(ranks.rank)), blocks)
        assert blocks.tolist() == list(range(SIZE))
        await ranks.abarrier()
        ranks.close()

    asyncio.run(run())


def test_the_others_go_on_without_one_that_has_left_or_died(request):
    async def go_on(ranks):
        await ranks.ashrink()

    ranks = ethbcast.Communicator.join(request.node.name, SIZE, join_within=30, call_within=20)
    former, host = ranks.rank, ranks.host
    ranks.barrier()
    if former == 0:
        ranks.close()
        with pytest.raises(ethbcast.Error) as raised:
            ranks.shrink()
        assert raised.value.status is ethbcast.Status.USAGE
        return
    with pytest.raises(ethbcast.Error) as raised:
        ranks.barrier()
    assert raised.value.status is ethbcast.Status.GONE
    ranks.shrink()
    assert (ranks.rank, ranks.size, ranks.host) == (former - 1, SIZE - 1, host)
    assert ranks.hosts == [f"n{host}" for host in range(1, SIZE)]
    asyncio.run(go_on(ranks))
    here = np.full(100_000, ranks.rank)
    ranks.broadcast(here, root=SIZE - 2)
    assert (here == SIZE - 2).all()
    with ranks:
        blocks = np.zeros(SIZE - 1)
        ranks.allgather(np.full(1, float(ranks.rank)), blocks)
        assert blocks.tolist() == list(range(SIZE - 1))


def test_a_group_in_use_does_not_shrink(ranks):
    ended = []

    def wait():
        try:
            ranks.recv(bytearray(8), (ranks.rank + 1) % SIZE, 9, within=2)
        except ethbcast.Error as error:
            ended.append(error.status)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    with pytest.raises(RuntimeError, match="let their calls end"):
        ranks.shrink()
    thread.join()
    assert ended == [ethbcast.Status.NOBODY]
    ranks.shrink()
    assert ranks.size == SIZE
    ranks.barrier()

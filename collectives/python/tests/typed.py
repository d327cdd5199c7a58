"""What a program may write, for a type checker: nothing here is run."""

import asyncio

import ethbcast


async def all_of_it(values: bytearray) -> dict[str, str]:
    cancel = ethbcast.Cancel(after=2.0)
    report: ethbcast.Report = ethbcast.send("file", "group", receivers=3, cancel=cancel)
    count: int = report.bytes
    report = await ethbcast.asend(values, "group", hosts=["n1", "n2"], progress=lambda bytes, slowest: None)
    report = ethbcast.send(values, "group", receivers=1, delta=True, rate="400mbit", nice=True, on_slow="wait")
    count += report.travelled or 0
    report = await asyncio.wait_for(ethbcast.arecv("group", values, max_wait=5), 2)
    with ethbcast.Transfer(ethbcast.send, values, "group", receivers=1) as sending:
        count += sum(bytes for bytes, slowest in sending)
    async for bytes, slowest in ethbcast.Transfer(ethbcast.recv, "group", values):
        count += bytes + len(slowest or "")
    report = sending.report
    ranks = await ethbcast.Communicator.ajoin("group", 3, join_within=5)
    await ranks.abroadcast(values, root=1)
    count += await ranks.arecv(values, 1, tag=2, within=3)
    ranks.barrier(cancel=cancel)
    ranks.shrink(cancel=cancel)
    await ranks.ashrink()
    try:
        with ethbcast.Communicator.join("group", 2, cancel=cancel) as two:
            two.allgather(b"x", values)
    except ethbcast.Error as error:
        return error.failed if error.status is ethbcast.Status.GONE else {}
    return {"count": str(count), "cancelled": str(cancel.is_cancelled)}

#!/usr/bin/env python3
"""The vectors of docs/keys.md, computed without the code that they test: BLAKE3 by its paper, X25519 by RFC 7748,
Ed25519 by RFC 8032, POLYVAL and AES-256-GCM-SIV by RFC 8452, AES by FIPS 197, ChaCha20 by RFC 8439. Slow, and not in constant time.

    vectors.py          prints them
    vectors.py FILE     compares them with FILE
"""

import hashlib
import sys

# --- BLAKE3

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
MIXED = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
START, END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64
LOW = 0xFFFFFFFF


def words(data):
    return [int.from_bytes(data[at:at + 4], "little") for at in range(0, len(data), 4)]


def turn(word, by):
    return (word >> by | word << 32 - by) & LOW


def compress(value, block, counter, flags, whole=False):
    s = list(value) + list(IV[:4]) + [counter & LOW, counter >> 32, len(block), flags]
    m = words(block.ljust(64, b"\0"))
    for _ in range(7):
        for at, (a, b, c, d) in enumerate(MIXED):
            for add, right, left in ((m[2 * at], 16, 12), (m[2 * at + 1], 8, 7)):
                s[a] = (s[a] + s[b] + add) & LOW
                s[d] = turn(s[d] ^ s[a], right)
                s[c] = (s[c] + s[d]) & LOW
                s[b] = turn(s[b] ^ s[c], left)
        m = [m[at] for at in ORDER]
    out = [s[at] ^ s[at + 8] for at in range(8)]
    if whole:
        out += [s[at + 8] ^ value[at] for at in range(8)]
    return b"".join(word.to_bytes(4, "little") for word in out)


def last_step(data, key, flags, counter=0):
    """The last compression of a subtree, with all that it needs."""
    if len(data) <= 1024:
        blocks = [data[at:at + 64] for at in range(0, len(data), 64)] or [b""]
        value, first = key, START
        for block in blocks[:-1]:
            value, first = words(compress(value, block, counter, flags | first)), 0
        return value, blocks[-1], counter, flags | first | END
    left = 1024
    while 2 * left < len(data):
        left *= 2
    halves = (last_step(data[:left], key, flags, counter), last_step(data[left:], key, flags, counter + left // 1024))
    return key, b"".join(compress(*half) for half in halves), 0, flags | PARENT


def blake3(data, key=IV, flags=0):
    return extended(data, 32, key, flags)


def extended(data, length, key=IV, flags=0):
    value, block, _, flags = last_step(data, key, flags)
    blocks = (compress(value, block, at, flags | ROOT, whole=True) for at in range(-(-length // 64)))
    return b"".join(blocks)[:length]


def keyed(key, data):
    return blake3(data, words(key), KEYED)


def derive(context, material):
    return blake3(material, words(blake3(context.encode(), flags=CONTEXT)), MATERIAL)


# --- X25519 and Ed25519

P = 2**255 - 19
ORDER_L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def x25519(scalar, point):
    k = int.from_bytes(scalar, "little") & ~7 & (1 << 255) - 1 | 1 << 254
    x1 = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for at in reversed(range(255)):
        bit = k >> at & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def add(one, two):
    (x1, y1), (x2, y2) = one, two
    k = D * x1 * x2 * y1 * y2
    return ((x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P)


def times(scalar, point):
    total = (0, 1)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


BASE = (15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, P) % P)


def encoded(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def expanded(seed):
    digest = hashlib.sha512(seed).digest()
    return int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254, digest[32:]


def ed25519_public(seed):
    return encoded(times(expanded(seed)[0], BASE))


def number(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER_L


def ed25519_sign(seed, message):
    secret, prefix = expanded(seed)
    public, r = encoded(times(secret, BASE)), number(prefix, message)
    commitment = encoded(times(r, BASE))
    s = (r + number(commitment, public, message) * secret) % ORDER_L
    return commitment + s.to_bytes(32, "little")


# --- AES-256-GCM-SIV


def xtime(byte):
    return byte << 1 ^ (0x11B if byte & 0x80 else 0)


def s_box():
    power, log, value = [], {}, 1
    for at in range(255):
        power.append(value)
        log[value] = at
        value ^= xtime(value)
    box = []
    for byte in range(256):
        inverse = power[-log[byte] % 255] if byte else 0
        box.append(0x63)
        for by in range(5):
            box[byte] ^= (inverse << by | inverse >> 8 - by) & 0xFF
    return box


S = s_box()


def round_keys(key):
    keys, constant = [list(key[at:at + 4]) for at in range(0, 32, 4)], 1
    for at in range(8, 60):
        word = keys[-1]
        if at % 8 == 0:
            word = [S[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = xtime(constant)
        elif at % 8 == 4:
            word = [S[byte] for byte in word]
        keys.append([one ^ two for one, two in zip(keys[-8], word)])
    return [sum(keys[at:at + 4], []) for at in range(0, 60, 4)]


def aes256(key, block):
    keys = round_keys(key)
    state = [one ^ two for one, two in zip(block, keys[0])]
    for turn_number, round_key in enumerate(keys[1:], 1):
        state = [S[state[(at + 4 * (at % 4)) % 16]] for at in range(16)]
        if turn_number < 14:
            mixed = []
            for at in range(0, 16, 4):
                a = state[at:at + 4]
                whole = a[0] ^ a[1] ^ a[2] ^ a[3]
                mixed += [a[i] ^ whole ^ xtime(a[i] ^ a[(i + 1) % 4]) for i in range(4)]
            state = mixed
        state = [one ^ two for one, two in zip(state, round_key)]
    return bytes(state)


FIELD = 1 << 128 | 1 << 127 | 1 << 126 | 1 << 121 | 1
X_MINUS_128 = 1 << 127 | 1 << 124 | 1 << 121 | 1 << 114 | 1


def product(a, b):
    total = 0
    for at in range(128):
        if b >> at & 1:
            total ^= a << at
    for at in reversed(range(128, 256)):
        if total >> at & 1:
            total ^= FIELD << at - 128
    return total


def polyval(key, data):
    h = product(int.from_bytes(key, "little"), X_MINUS_128)
    total = 0
    for at in range(0, len(data), 16):
        total = product(total ^ int.from_bytes(data[at:at + 16].ljust(16, b"\0"), "little"), h)
    return total.to_bytes(16, "little")


def padded(data):
    return data + bytes(-len(data) % 16)


def gcm_siv(key, nonce, plain, associated):
    halves = [aes256(key, at.to_bytes(4, "little") + nonce)[:8] for at in range(6)]
    tag_key, own_key = b"".join(halves[:2]), b"".join(halves[2:])
    lengths = (8 * len(associated)).to_bytes(8, "little") + (8 * len(plain)).to_bytes(8, "little")
    tag = bytearray(polyval(tag_key, padded(associated) + padded(plain) + lengths))
    for at in range(12):
        tag[at] ^= nonce[at]
    tag[15] &= 0x7F
    tag = aes256(own_key, bytes(tag))
    first, rest = int.from_bytes(tag[:4], "little"), tag[4:15] + bytes([tag[15] | 0x80])
    stream = b"".join(aes256(own_key, (first + at & LOW).to_bytes(4, "little") + rest)
                      for at in range(-(-len(plain) // 16)))
    return bytes(one ^ two for one, two in zip(plain, stream)) + tag


def aes_ctr(key, data, first=0, skipped=0):
    blocks = -(-(skipped + len(data)) // 16)
    stream = b"".join(aes256(key, (first + at).to_bytes(16, "big")) for at in range(blocks))
    return xored(data, stream[skipped:])


def xored(data, stream):
    return bytes(one ^ two for one, two in zip(data, stream))


# --- ChaCha20


def chacha20_block(key, counter, nonce):
    first = words(b"expand 32-byte k" + key + counter.to_bytes(4, "little") + nonce)
    s = list(first)
    for _ in range(10):
        for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                           (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            for left, right in ((16, 12), (8, 7)):
                s[a] = (s[a] + s[b]) & LOW
                s[d] = turn(s[d] ^ s[a], 32 - left)
                s[c] = (s[c] + s[d]) & LOW
                s[b] = turn(s[b] ^ s[c], 32 - right)
    return b"".join((one + two & LOW).to_bytes(4, "little") for one, two in zip(s, first))


def chacha20(key, data):
    stream = b"".join(chacha20_block(key, at, bytes(12)) for at in range(-(-len(data) // 64)))
    return xored(data, stream)


# --- what others have published


def check_published():
    h = bytes.fromhex
    assert blake3(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    nine = (9).to_bytes(32, "little")
    assert x25519(nine, nine).hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    assert x25519(h("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"), nine).hex() == \
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    seed = h("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert ed25519_public(seed).hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert ed25519_sign(seed, b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e0652249015")
    assert polyval(h("25629347589242761d31f826ba4b757b"),
                   h("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362")).hex() == \
        "f7a3b47b846119fae5b7866cf5e5b77e"
    assert extended(b"", 64).hex()[64:] == "e00f03e7b69af26b7faaf09fcd333050338ddfe085b8cc869ca98b206c08243a"
    assert aes256(h("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"),
                  h("6bc1bee22e409f96e93d7e117393172a")).hex() == "f3eed1bdb5d2a03c064b5a7e3db181f8"
    assert chacha20_block(bytes(range(32)), 1, h("000000090000004a00000000")).hex().startswith(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")
    key = h("01" + "00" * 31)
    assert gcm_siv(key, h("03" + "00" * 11), h("0100000000000000"), b"").hex() == \
        "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28"


# --- the vectors

CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aiou"


def proquints(data):
    numbers = [int.from_bytes(data[at:at + 2], "big") for at in range(0, len(data), 2)]
    return "-".join(CONSONANTS[n >> 12] + VOWELS[n >> 10 & 3] + CONSONANTS[n >> 6 & 15] + VOWELS[n >> 4 & 3]
                    + CONSONANTS[n & 15] for n in numbers)


def vectors():
    x = bytes(range(32))
    yield "tag_key", derive("ethbcast 7 tag", x)
    yield "hash_key", derive("ethbcast 7 hash", x)
    yield from tagged_frames(x)
    place = bytes.fromhex("5e550001") + b"\0\0" + (5).to_bytes(6, "big")
    yield "veiled", gcm_siv(derive("ethbcast 7 veil", x), place, b"\x02no", bytes([24]))
    yield from content(x)
    yield from ranks(x)
    yield from phrase(bytes(range(16)))
    yield from session(x)


def content(x):
    chunk, offset, stretch = bytes(range(80)), (1 << 20).to_bytes(8, "big"), (3).to_bytes(8, "big")
    key = keyed(derive("ethbcast 7 content", x), bytes(range(0x20, 0x40)) + (65536).to_bytes(8, "big"))
    yield "chunk_by_aes", aes_ctr(key, chunk)
    yield "chunk_by_chacha20", chacha20(key, chunk)

    def masked(what, of, data):
        return xored(data, extended(of, len(data), words(derive(f"ethbcast 7 {what} mask", x)), KEYED))

    head, values = bytes.fromhex("0002000000000000"), bytes(range(0x40, 0x80))
    seal = keyed(derive("ethbcast 7 ledger seal", x), head + values + offset)[:16]
    ledger = head + masked("ledger", seal + offset, values) + seal
    yield "ledger", ledger
    head, chosen = bytes.fromhex("0200000500000000"), bytes.fromhex("0100000007")
    seal = keyed(derive("ethbcast 7 section seal", x), head + chosen + stretch)[:16]
    yield "section", head + seal + masked("section", seal + stretch, chosen)
    yield "fragments", masked("fragment", ledger + stretch, bytes(range(12)))


def ranks(x):
    def applied(what, one, two, numbered, offset):
        parts = (what, 1), (one, 2), (two, 2), (numbered, 6), (offset // 16, 5)
        first = b"".join(value.to_bytes(length, "big") for value, length in parts)
        key = derive("ethbcast 7 ranks content", x)
        return aes_ctr(key, bytes(range(40)), int.from_bytes(first, "big"), offset % 16)

    yield "ranks_frame", applied(1, 0x0102, 0, 0x030405060708, 24)
    yield "ranks_message", applied(2, 1, 2, 5, (1 << 36) + 20)


def tagged_frames(x):
    payload = bytes(range(56))
    u = polyval(derive("ethbcast 7 hash", x)[:16], payload)
    sealed = bytes.fromhex("5e550001 0001 0038 000000000000")

    def tag(to, source, rank, stamp):
        hop = bytes([2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, source]) + bytes.fromhex("88b5 4542 07 01")
        hop += rank.to_bytes(2, "big") + b"\0\0" + stamp.to_bytes(4, "big") + b"\1\1"
        return keyed(derive("ethbcast 7 tag", x), hop + sealed + u)[:12]

    yield "tag", tag(2, 1, 0, 1000)
    yield "tag_of_next_hop", tag(3, 2, 1, 2000)


def phrase(drawn):
    secret = derive("ethbcast 7 phrase", drawn)
    seed = derive("ethbcast 7 phrase sign", drawn)
    yield "phrase", proquints(drawn + derive("ethbcast 7 phrase check", drawn)[:2])
    yield "phrase_cluster", secret
    yield "phrase_sender", ed25519_public(seed)
    yield "cluster_name", derive("ethbcast 7 name", secret)[:8]
    yield "cluster_check", derive("ethbcast 7 check", secret)[:4]


def session(x):
    nine = (9).to_bytes(32, "little")
    root, receiver = bytes([0x11] * 32), bytes([0x22] * 32)
    sender = bytes([0x33] * 32)
    root_public, receiver_public = x25519(root, nine), x25519(receiver, nine)
    mac = bytes([2, 0, 0, 0, 0, 1])
    name = blake3(b"ethbcast 7 session" + bytes.fromhex("5e550001") + bytes([0x44] * 32) + root_public
                  + ed25519_public(sender) + mac + b"ethbcast")
    shared = x25519(receiver, root_public)
    assert shared == x25519(root, receiver_public)
    request = blake3(b"join" + bytes([2, 0, 0, 0, 0, 2]))
    yield "nonce", blake3(receiver_public)[:8]
    yield "session_name", name
    yield "exchanged", shared
    yield "pair_secret", derive("ethbcast 7 pair", x + shared + name + request)
    yield "signature", ed25519_sign(sender, b"ethbcast 7 view" + name + b"fields")
    yield "ledger_signature", ed25519_sign(sender, b"ethbcast 7 ledger" + name + (1 << 20).to_bytes(8, "big") + b"list")


def text():
    lines = ((name, value if isinstance(value, str) else value.hex()) for name, value in vectors())
    return "".join(f"{name} {value}\n" for name, value in lines)


if __name__ == "__main__":
    check_published()
    if len(sys.argv) == 1:
        print(text(), end="")
    elif open(sys.argv[1], encoding="utf-8").read() != text():
        sys.exit(f"{sys.argv[1]} has other vectors than this script")

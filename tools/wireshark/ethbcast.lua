-- Wireshark dissector for the ethbcast protocol, versions 6 and 7 (docs/protocol/README.md).
--
-- Copy it to the folder that Help > About > Folders calls "Personal Lua Plugins", or try it once:
--     tshark -X lua_script:ethbcast.lua -r capture.pcap
-- Frames of EtherType 0x88B5 are taken; another can be named in the preferences of the protocol, or by "Decode As":
--     tshark -X lua_script:ethbcast.lua -d ethertype==0x88b6,ethbcast -r capture.pcap
-- Frames with a key (version 7) are read by the log that `--key-log` of `send` or `recv` has written:
--     tshark -X lua_script:ethbcast.lua -o ethbcast.key_log:FILE -r capture.pcap
-- Fields of the header are called ethbcast.NAME, those of what a frame carries ethbcast.body.NAME, with the names that
-- `ethbcast dump --json` has.

local protocol = Proto("ethbcast", "ethbcast, one-to-many transport for Ethernet")

local MAGIC, VERSION, KEYED_VERSION, HEADER_BYTES, KEYED_BYTES, NONE = 0x4542, 6, 7, 32, 40, 65535
local OPERATIONS = { "broadcast", "barrier", "scatter", "gather", "allgather", "reduce", "allreduce" }

-- Fields: made from collectives/src/inspect/table.rs.
local KINDS = { [1] = "DATA", [2] = "ACK", [3] = "HEARTBEAT", [4] = "PARITY", [5] = "LANE",
       [16] = "ANNOUNCE", [17] = "JOIN", [18] = "REFUSE", [19] = "VIEW", [20] = "READY",
       [21] = "STATUS", [22] = "DONE", [23] = "VERDICT", [24] = "ABORT", [25] = "ORPHAN",
       [26] = "PROBE", [27] = "ECHO", [28] = "REPORT", [29] = "LEAVE", [30] = "FETCH",
       [31] = "PIECE", [32] = "PUSH", [33] = "PULL", [34] = "NOTE", [35] = "RECEIPT", [36] = "ASK",
       [40] = "CALL", [41] = "ALIVE", [42] = "BYE", [43] = "SHRINK", [48] = "NEEDS", [49] = "WHO",
       [50] = "HERE", [51] = "CHALLENGE", [52] = "RESPONSE", [53] = "KEYS", }
local FLAGS = { "LAST", "ACK_NOW", "RESENT", "FLUSH", "REPORT", }
local WORDS = {
    STAGES = { [0] = "gathering", "started", "late-welcome", },
    SHRINK_STAGES = { "proposed", "agreed", "done", },
    CONTENTS = { [0] = "stream", "file", "directory", "sparse file", "gzip", "xz", "zstd", },
    REFUSALS = { [0] = "MTU too small", "no space", "too late", "name or interface taken",
       "not in the topology", "smaller MTU on the way", "not asked for", "cannot hold it",
       "not ready behind it", },
    STATES = { [0] = "alive", "blocked", "starved", "verifying", "waits-for-child", "syncing",
       "settled", "done", },
    OUTCOMES = { [0] = "verified", "no-space", "write-failed", "damaged", "interrupted", "silent",
       "lost", "unconfirmed", "stalled", "died", },
    VIAS = { "chain", "cast", "binary", "kary", "flat", "binomial", "scatter-allgather",
       "recursive-doubling", "chain-unaware", "binary-unaware", "latency", "binary-best",
       "two-tree", },
    BUSY = { [0] = "waiting", "joining", "receiving", },
    STANDINGS = { [0] = " (gone)", "", " (demoted)", },
    TASKS = { [0] = "invite", "ping", "train", "ask", "flow", "bulk", },
    CODES = { [0] = "room", "grant", "refuse", "withdraw", },
    FAILURES = { "mismatch", "gone", "left", "abandoned", "garbled", "cut", "deaf", },
    LAST = { "failed", "delivered", },
}
local LISTS = {
    HEADER = { "destination Skip 6", "source Skip 6", "ether_type Skip 2", "magic Hex 2",
       "version Number 1", "kind Number 1", "rank Known 2", "port_to Number 1",
       "port_from Number 1", "stamp Number 4", "epoch Number 1", "flags Hex 1", "checksum Hex 4",
       "session Hex 4", "stream Number 2", "payload_bytes Number 2", "sequence Number 6", },
    CONTENT = { "content Content", "chunk_bytes Part 0 Number", "mode Part 2 Text",
       "modified Part 8 Text", "nanoseconds Part 4 No", },
    MEMBER = { "mac Part 6 No", "nonce Part 8 No", "parent Part 2 No", "order Part 2 No",
       "standing Part 1 No", "host Text", },
    VIEWED = { "epoch Skip 4", "via Via VIAS", "children Skip 1", "segment Number 4",
       "strict Skip 1", "payload Number 2", "size Known 8", "content Include CONTENT",
       "selective Number 1", "members Number 2", "tree Members MEMBER STANDINGS", "_ Optional 8",
       "rate Rate", "yields Part 0 Number", },
    ACKNOWLEDGED = { "limit Ahead", "below Behind", "consumed Behind", "held_us Number 4",
       "bitmap_bytes Length", "reserved Skip 2", "arrived_beyond Ones", },
    NOTIFIED = { "repeats Number 1", "reserved Skip 1", "waits_for Known 2", "moved Number 2",
       "reserved Skip 2", "call Calls", "failure If 104 1 255 Word FAILURES",
       "blame If 104 1 255 Skip 1", "about If 104 1 255 Number 2", "other If 104 1 255 Skip 2",
       "third If 104 1 255 Skip 2", "from If 104 1 255 Number 8", "signature Part 24 No",
       "signature Part 24 No", },
    TASK = { "task Word TASKS", "reserved Skip 1", "payload Number 2", "number Number 4",
       "sender If 0 3 3 MaybeHost", "receiver If 0 4 4 Host", "sender If 0 4 4 Host", },
    DATA = { "_ Trailer", "bytes Number 8", "digest Hex 32", },
    ACK = { "_ Include ACKNOWLEDGED", },
    HEARTBEAT = { "_ Optional 2", "designated Number 2", },
    PARITY = { "from Block", "to Part 0 Number", "parity Part 0 Number", },
    LANE = { "first Host", "working Number 1", "lasts_ms Number 2", },
    ANNOUNCE = { "size Known 8", "mtu Number 2", "stage Word STAGES", "age_ms Number 4",
       "content Include CONTENT", "group Text", "host Text", "source Text", },
    JOIN = { "nonce Hex 8", "free_bytes Number 8", "mtu Number 2", "features Number 4",
       "group Text", "host Text", },
    REFUSE = { "nonce Hex 8", "refusal Word REFUSALS", "text Text", },
    VIEW = { "epoch Number 4", "digest Hex 32", "part Number 2", "parts Number 2", "bytes Rest", },
    READY = { "epoch Number 4", "digest Hex 32", "arrived Number 8", },
    STATUS = { "state Word STATES", "waits_for Known 2", "arrived Number 8", "consumed Number 8",
       "_ Optional 1", "mute If 19 1 255 Truth", "_ If 19 0 0 Skip 1", "_ Optional 13",
       "link_sent Truth", "own_kbit Number 4", "others_kbit Number 4", "ip_kbit Number 4", },
    DONE = { "outcome Word OUTCOMES", "bytes Number 8", "digest Hex 32", "text Text",
       "_ OptionalPair", "frames Number 8", "repaired Number 8", "behind Part 2 Number",
       "hosts Hosts OUTCOMES", },
    VERDICT = { "over Truth", "known Skip 1", "bytes If 1 1 255 Number 8",
       "digest If 1 1 255 Hex 32", "_ If 1 0 0 Skip 40", "bitmap_bytes Length", "heard Ranks",
       "accepted Ranks", },
    ABORT = { "text Text", },
    ORPHAN = { "of_stream Number 2", "child Number 2", "from Number 8", "to Number 8", },
    PROBE = { "_ Include TASK", "group If 0 0 0 Text", },
    ECHO = { "_ Include TASK", "host If 0 0 0 Text", },
    REPORT = { "arrived Number 8", "arrived_late Number 8", "first_ns Number 8", "late_ns Number 8",
       "last_ns Number 8", "worked_ns Number 8", "_ Optional 8", "computer Number 8", },
    LEAVE = { "nonce Hex 8", "text Text", },
    FETCH = { "for_rank Number 2", "blamed Known 2", "attempt Number 1", "reserved Skip 3",
       "from Number 8", "to Number 8", },
    PIECE = { "from Number 8", "to Number 8", "bytes Rest", },
    PUSH = { "message Number 8", "offset Number 4", "pushed_bytes Number 4",
       "message_bytes Number 8", "tag Number 4", "reserved Skip 4", },
    PULL = { "message Number 8", "offset Number 8", },
    NOTE = { "word Word CODES", "reserved Skip 3", "echo Skip 4", "message Skip 8",
       "pushed_bytes Skip 8", "message If 0 1 3 At 8 Number 8",
       "pushed_bytes If 0 3 3 At 16 Number 8", "room_messages Number 8", "room_bytes Number 8",
       "cursor Cursor", "echo At 4 Number 4", "_ Include ACKNOWLEDGED", },
    RECEIPT = { "_ Include ACKNOWLEDGED", },
    ASK = { },
    CALL = { "nonce Hex 8", "ranks Number 2", "mtu Number 2", "preset Number 1", "joined Truth",
       "digest Hex 32", "group Text", "host Text", "flags Flags told unfit", "told Part 0 Number",
       "unfit Part 0 Number", "list Hex 8", "network Hex 8", "part Piece", "parts Part 2 Number", },
    ALIVE = { "_ Include NOTIFIED", },
    BYE = { "_ Include NOTIFIED", },
    SHRINK = { "stage Word SHRINK_STAGES", "reserved Skip 3", "lost Ranks", },
    NEEDS = { "stretch Number 8", "set_bytes Rest", },
    WHO = { "nonce Hex 8", "spread_ms Most 2 2000", "reserved Skip 2", "group Text", },
    HERE = { "nonce Hex 8", "busy Word BUSY", "last Skip 1", "mtu Number 2", "megabits Nonzero 4",
       "seconds_ago Skip 4", "free_bytes Known 8", "came_bytes Number 8", "size Known 8",
       "group Text", "host Text", "build Text", "last If 9 1 255 At 9 Word LAST",
       "seconds_ago If 9 1 255 At 16 Number 4", "source If 9 1 255 Text", },
    CHALLENGE = { "word Hex 8", "unanswered Number 1", },
    RESPONSE = { "words HexWords", },
    KEYS = { },
}
-- End of the fields.

local function words_in(text)
    local words = {}
    for word in text:gmatch("%S+") do
        words[#words + 1] = tonumber(word) or word
    end
    return words
end

local function set_of(text)
    local set = {}
    for _, word in ipairs(words_in(text)) do
        set[word] = true
    end
    return set
end

-- Forms that are shown as text, and those under whose name nothing is shown; all others are shown as numbers.
local TEXTS = set_of("Calls Content Hex HexWords Host Hosts MaybeHost Members Ranks Text Via Word")
local UNSHOWN = set_of("Flags Include Length No Optional OptionalPair Skip Trailer")

local header, body, all = { bytes = ProtoField.bytes("ethbcast.bytes", "Bytes") }, {}, {}
for name, fields in pairs(LISTS) do
    for at, field in ipairs(fields) do
        local words = words_in(field)
        fields[at] = words
        local own, form = words[1], words[2]
        if name ~= "HEADER" then
            for _, word in ipairs(words) do
                form = (TEXTS[word] or UNSHOWN[word] or word == "Number") and word or form
            end
            if not UNSHOWN[form] then
                local make = TEXTS[form] and ProtoField.string or ProtoField.uint64
                body[own] = body[own] or make("ethbcast.body." .. own, own)
            end
        elseif form ~= "Skip" then
            local make = ProtoField["uint" .. (words[3] > 4 and 64 or 8 * words[3])]
            local label = own:gsub("_", " "):gsub("^%l", string.upper)
            header[own] = make("ethbcast." .. own, label, form == "Hex" and base.HEX or base.DEC,
                own == "kind" and KINDS or form == "Known" and { [NONE] = "none yet" } or nil)
        end
    end
end
header.tag = ProtoField.bytes("ethbcast.tag", "Tag")
for bit, name in ipairs(FLAGS) do
    header[name] = ProtoField.bool("ethbcast.flags." .. name:lower(), name, 8, nil, 2 ^ (bit - 1))
end
for _, fields in ipairs({ header, body }) do
    for _, field in pairs(fields) do
        all[#all + 1] = field
    end
end
protocol.fields = all

local malformed = ProtoExpert.new(
    "ethbcast.malformed", "Malformed: no host takes it", expert.group.MALFORMED, expert.severity.ERROR)
local other_version = ProtoExpert.new(
    "ethbcast.other_version", "Another version of the protocol", expert.group.PROTOCOL, expert.severity.WARN)
local damaged = ProtoExpert.new(
    "ethbcast.damaged", "The checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local cut = ProtoExpert.new("ethbcast.cut", "Cut by the capture", expert.group.UNDECODED, expert.severity.WARN)
local keyed = ProtoExpert.new(
    "ethbcast.keyed", "Protected by a key that is not in the log", expert.group.SECURITY, expert.severity.NOTE)
protocol.experts = { malformed, other_version, damaged, cut, keyed }

protocol.prefs.ether_type = Pref.uint("EtherType", 0x88b5, "EtherType of the frames, in decimal")
protocol.prefs.check = Pref.bool("Verify checksums", true, "Whether the CRC-32 of each frame is computed")
protocol.prefs.key_log = Pref.string("Log of secrets", "", "File that `--key-log` of `send` or `recv` has written")

local ethernet = { Field.new("eth.dst"), Field.new("eth.src"), Field.new("eth.type") }

-- The 14 bytes before the frame, nil if they cannot be had.
local function ethernet_header()
    local header = ""
    for _, part in ipairs(ethernet) do
        local found = part()
        if not found then
            return nil
        end
        header = header .. found.range:raw()
    end
    return header
end

-- CRC-32 of IEEE 802.3, by the bit library that this Lua has.

local unpack = table.unpack or unpack
local bits = bit32 or bit
if not bits then
    local operators = "return { bxor = function(a, b) return a ~ b end, band = function(a, b) return a & b end, "
        .. "rshift = function(a, n) return a >> n end }"
    bits = load(operators)()
end
local crc_table = {}
for byte = 0, 255 do
    local value = byte
    for _ = 1, 8 do
        local odd = bits.band(value, 1) == 1
        value = bits.rshift(value, 1)
        if odd then
            value = bits.bxor(value, 0xedb88320)
        end
    end
    crc_table[byte] = value
end

local function crc(value, text)
    for at = 1, #text do
        value = bits.bxor(bits.rshift(value, 8), crc_table[bits.band(bits.bxor(value, text:byte(at)), 255)])
    end
    return value
end

-- The flags that the origin seals: LAST, FLUSH, REPORT.
local function sealed_flags(flags)
    return flags % 2 + math.floor(flags / 8) % 4 * 8
end

-- The content checksum: kind, sealed flags, all behind the checksum; what it would be without the last inversion.
local function content_checksum(tvb, payload_bytes)
    local value = crc(0xffffffff, string.char(tvb(3, 1):uint(), sealed_flags(tvb(13, 1):uint())))
    return crc(value, tvb:raw(18, HEADER_BYTES - 18 + payload_bytes))
end

-- The checksum goes on from the content's over the Ethernet header and all before it; nil if they cannot be had.
local function checksum_fits(tvb, payload_bytes)
    local link = ethernet_header()
    if not link then
        return nil
    end
    local value = crc(content_checksum(tvb, payload_bytes), link .. tvb:raw(0, 14))
    value = bits.bxor(value, 0xffffffff) % 4294967296
    return value == tvb(14, 4):uint()
end

-- What a frame with a key needs (docs/keys.md), slow and not in constant time: BLAKE3 by its paper, AES by FIPS 197,
-- POLYVAL and AES-256-GCM-SIV by RFC 8452, Poly1305 by RFC 8439. Words have 32 bits, the first byte is the lowest.

local bxor, rshift, floor = bits.bxor, bits.rshift, math.floor
local POWERS = {}
for exponent = 0, 32 do
    POWERS[exponent] = floor(2 ^ exponent)
end
local WORD = POWERS[32]

local function word_at(text, at)
    local a, b, c, d = text:byte(at, at + 3)
    return (a or 0) + (b or 0) * 256 + (c or 0) * 65536 + (d or 0) * 16777216
end

local function words_of(text, from, count)
    local words = {}
    for at = 1, count do
        words[at] = word_at(text, from + 4 * at - 4)
    end
    return words
end

local function text_of(words, count)
    local bytes = {}
    for at = 1, count do
        local word = words[at] % WORD
        bytes[at] = string.char(word % 256, floor(word / 256) % 256, floor(word / 65536) % 256, floor(word / 16777216))
    end
    return table.concat(bytes)
end

local IV = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 }
local ORDER = { 3, 7, 4, 11, 8, 1, 5, 14, 2, 12, 13, 6, 10, 15, 16, 9 }
local MIXED = {
    { 1, 5, 9, 13 }, { 2, 6, 10, 14 }, { 3, 7, 11, 15 }, { 4, 8, 12, 16 },
    { 1, 6, 11, 16 }, { 2, 7, 12, 13 }, { 3, 8, 9, 14 }, { 4, 5, 10, 15 },
}
local START, END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64

local function rotated(word, by)
    return rshift(word, by) + word % POWERS[by] * POWERS[32 - by]
end

local function compress(value, block, counter, flags)
    local s = { value[1], value[2], value[3], value[4], value[5], value[6], value[7], value[8],
        IV[1], IV[2], IV[3], IV[4], counter, 0, #block, flags }
    local m = words_of(block, 1, 16)
    for _ = 1, 7 do
        for at, places in ipairs(MIXED) do
            local a, b, c, d = places[1], places[2], places[3], places[4]
            s[a] = (s[a] + s[b] + m[2 * at - 1]) % WORD
            s[d] = rotated(bxor(s[d], s[a]), 16)
            s[c] = (s[c] + s[d]) % WORD
            s[b] = rotated(bxor(s[b], s[c]), 12)
            s[a] = (s[a] + s[b] + m[2 * at]) % WORD
            s[d] = rotated(bxor(s[d], s[a]), 8)
            s[c] = (s[c] + s[d]) % WORD
            s[b] = rotated(bxor(s[b], s[c]), 7)
        end
        local moved = {}
        for at = 1, 16 do
            moved[at] = m[ORDER[at]]
        end
        m = moved
    end
    local out = {}
    for at = 1, 8 do
        out[at] = bxor(s[at], s[at + 8]) % WORD
    end
    return out
end

-- What the last compression of a subtree is called with.
local function last_step(data, key, flags, counter)
    if #data <= 1024 then
        local value, at, first = key, 1, START
        while at + 64 <= #data do
            value, at, first = compress(value, data:sub(at, at + 63), counter, flags + first), at + 64, 0
        end
        return value, data:sub(at), counter, flags + first + END
    end
    local left = 1024
    while 2 * left < #data do
        left = 2 * left
    end
    local one = compress(last_step(data:sub(1, left), key, flags, counter))
    local two = compress(last_step(data:sub(left + 1), key, flags, counter + left / 1024))
    return key, text_of(one, 8) .. text_of(two, 8), 0, flags + PARENT
end

local function blake3(data, key, flags)
    local value, block, _, all = last_step(data, key, flags, 0)
    return text_of(compress(value, block, 0, all + ROOT), 8)
end

local function derive(context, material)
    return blake3(material, words_of(blake3(context, IV, CONTEXT), 1, 8), MATERIAL)
end

local function doubled(byte)
    return byte < 128 and 2 * byte or bxor(2 * byte, 0x11b)
end

local s_box, doubles = {}, {}
do
    local powers, logs, value = {}, {}, 1
    for at = 0, 254 do
        powers[at], logs[value] = value, at
        value = bxor(value, doubled(value))
    end
    for byte = 0, 255 do
        local inverse, mixed = byte > 0 and powers[(255 - logs[byte]) % 255] or 0, 0x63
        for by = 0, 4 do
            mixed = bxor(mixed, inverse * POWERS[by] % 256 + floor(inverse * POWERS[by] / 256))
        end
        s_box[byte], doubles[byte] = mixed, doubled(byte)
    end
end

-- The 240 bytes of the round keys of AES-256.
local function schedule(key)
    local keys, constant = { key:byte(1, 32) }, 1
    for at = 33, 240, 4 do
        local a, b, c, d = keys[at - 4], keys[at - 3], keys[at - 2], keys[at - 1]
        if at % 32 == 1 then
            a, b, c, d = bxor(s_box[b], constant), s_box[c], s_box[d], s_box[a]
            constant = doubled(constant)
        elseif at % 32 == 17 then
            a, b, c, d = s_box[a], s_box[b], s_box[c], s_box[d]
        end
        keys[at], keys[at + 1] = bxor(keys[at - 32], a), bxor(keys[at - 31], b)
        keys[at + 2], keys[at + 3] = bxor(keys[at - 30], c), bxor(keys[at - 29], d)
    end
    return keys
end

local function aes(keys, block)
    local state = { block:byte(1, 16) }
    for at = 1, 16 do
        state[at] = bxor(state[at], keys[at])
    end
    for round = 1, 14 do
        local moved = {}
        for at = 0, 15 do
            moved[at + 1] = s_box[state[(at + 4 * (at % 4)) % 16 + 1]]
        end
        if round < 14 then
            for at = 1, 13, 4 do
                local a, b, c, d = moved[at], moved[at + 1], moved[at + 2], moved[at + 3]
                local all = bxor(bxor(a, b), bxor(c, d))
                moved[at] = bxor(a, bxor(all, doubles[bxor(a, b)]))
                moved[at + 1] = bxor(b, bxor(all, doubles[bxor(b, c)]))
                moved[at + 2] = bxor(c, bxor(all, doubles[bxor(c, d)]))
                moved[at + 3] = bxor(d, bxor(all, doubles[bxor(d, a)]))
            end
        end
        for at = 1, 16 do
            moved[at] = bxor(moved[at], keys[16 * round + at])
        end
        state = moved
    end
    return string.char(unpack(state))
end

-- Numbers of POLYVAL are four words, the lowest first.
local function times_x(v)
    local top = floor(v[4] / POWERS[31])
    return {
        v[1] % POWERS[31] * 2 + top, v[2] % POWERS[31] * 2 + floor(v[1] / POWERS[31]),
        v[3] % POWERS[31] * 2 + floor(v[2] / POWERS[31]),
        bxor(v[4] % POWERS[31] * 2 + floor(v[3] / POWERS[31]), top * 0xc2000000) % WORD,
    }
end

-- The products of a number with all polynomials of four bits.
local function products(one)
    local two = times_x(one)
    local four = times_x(two)
    local powers, all = { one, two, four, times_x(four) }, {}
    for factor = 0, 15 do
        all[factor] = { 0, 0, 0, 0 }
        for at, power in ipairs(powers) do
            if floor(factor / POWERS[at - 1]) % 2 == 1 then
                for word = 1, 4 do
                    all[factor][word] = bxor(all[factor][word], power[word]) % WORD
                end
            end
        end
    end
    return all
end

local OVERFLOWS = products({ 1, 0, 0, 0xc2000000 })

local function product(factors, v)
    local a, b, c, d = 0, 0, 0, 0
    for word = 4, 1, -1 do
        for nibble = 28, 0, -4 do
            local factor = factors[floor(v[word] / POWERS[nibble]) % 16]
            local over = OVERFLOWS[floor(d / POWERS[28])]
            d = bxor(bxor(d % POWERS[28] * 16 + floor(c / POWERS[28]), over[4]), factor[4]) % WORD
            c = bxor(bxor(c % POWERS[28] * 16 + floor(b / POWERS[28]), over[3]), factor[3]) % WORD
            b = bxor(bxor(b % POWERS[28] * 16 + floor(a / POWERS[28]), over[2]), factor[2]) % WORD
            a = bxor(bxor(a % POWERS[28] * 16, over[1]), factor[1]) % WORD
        end
    end
    return { a, b, c, d }
end

local X_MINUS_128 = products({ 1, 0, 0, 0x92040000 })

local function polyval_key(key)
    return products(product(X_MINUS_128, words_of(key, 1, 4)))
end

local function polyval(factors, data)
    local total = { 0, 0, 0, 0 }
    for at = 1, #data, 16 do
        for word = 1, 4 do
            total[word] = bxor(total[word], word_at(data, at + 4 * word - 4)) % WORD
        end
        total = product(factors, total)
    end
    return text_of(total, 4)
end

local function padded(data)
    return data .. ("\0"):rep(-#data % 16)
end

local function little(number, bytes)
    return text_of({ number % WORD, floor(number / WORD) }, 2):sub(1, bytes)
end

-- The plain text of AES-256-GCM-SIV; nil if the tag is wrong.
local function unveiled(keys, nonce, veiled, associated)
    if #veiled < 16 then
        return nil
    end
    local halves = {}
    for at = 0, 5 do
        halves[at + 1] = aes(keys, little(at, 4) .. nonce):sub(1, 8)
    end
    local hash_key, own = polyval_key(halves[1] .. halves[2]), schedule(table.concat(halves, "", 3))
    local text, tag = veiled:sub(1, -17), veiled:sub(-16)
    local first, rest = word_at(tag, 1), tag:sub(5, 15) .. string.char(tag:byte(16) % 128 + 128)
    local plain = {}
    for at = 1, #text, 16 do
        local stream = words_of(aes(own, little((first + floor(at / 16)) % WORD, 4) .. rest), 1, 4)
        for word = 1, 4 do
            stream[word] = bxor(stream[word], word_at(text, at + 4 * word - 4))
        end
        plain[#plain + 1] = text_of(stream, 4)
    end
    plain = table.concat(plain):sub(1, #text)
    local lengths = little(8 * #associated, 8) .. little(8 * #plain, 8)
    local sum = words_of(polyval(hash_key, padded(associated) .. padded(plain) .. lengths), 1, 4)
    for word = 1, 3 do
        sum[word] = bxor(sum[word], word_at(nonce, 4 * word - 3))
    end
    sum[4] = sum[4] % POWERS[31]
    return aes(own, text_of(sum, 4)) == tag and plain or nil
end

-- Numbers of Poly1305 are ten limbs of 13 bits.
local function limbs_of(text)
    local limbs, held, count = {}, 0, 0
    for at = 1, 17 do
        held, count = held + (text:byte(at) or 0) * POWERS[count], count + 8
        if count >= 13 then
            limbs[#limbs + 1], held, count = held % 8192, floor(held / 8192), count - 13
        end
    end
    return limbs
end

-- Carries between limbs; returns what the last carries.
local function carried(limbs)
    local carry = 0
    for at = 1, 10 do
        local sum = limbs[at] + carry
        limbs[at], carry = sum % 8192, floor(sum / 8192)
    end
    return carry
end

local function poly1305(key, data)
    local clamped = { key:byte(1, 16) }
    for _, at in ipairs({ 4, 8, 12, 16 }) do
        clamped[at] = clamped[at] % 16
    end
    for _, at in ipairs({ 5, 9, 13 }) do
        clamped[at] = clamped[at] - clamped[at] % 4
    end
    local r, h = limbs_of(string.char(unpack(clamped))), limbs_of("")
    for at = 1, #data, 16 do
        local block, sum = limbs_of(data:sub(at, at + 15) .. "\1"), limbs_of("")
        for i = 1, 10 do
            local digit = h[i] + block[i]
            for j = 1, 10 do
                local place = i + j - 1
                if place > 10 then
                    sum[place - 10] = sum[place - 10] + 5 * digit * r[j]
                else
                    sum[place] = sum[place] + digit * r[j]
                end
            end
        end
        local carry = carried(sum)
        sum[1], h = sum[1] + 5 * carry, sum
    end
    for _ = 1, 2 do
        local carry = carried(h)
        h[1] = h[1] + 5 * carry
    end
    -- At least 2^130 - 5 only if five more carry.
    local more = { unpack(h) }
    more[1] = more[1] + 5
    h = carried(more) > 0 and more or h
    local added = limbs_of(key:sub(17))
    for at = 1, 10 do
        h[at] = h[at] + added[at]
    end
    carried(h)
    local bytes, held, count, limb = {}, 0, 0, 1
    for at = 1, 16 do
        while count < 8 do
            held, count, limb = held + h[limb] * POWERS[count], count + 13, limb + 1
        end
        bytes[at], held, count = held % 256, floor(held / 256), count - 8
    end
    return string.char(unpack(bytes))
end

-- Secrets of the log by session: how they hash payloads, and their keys.

local HASHES = {
    function(key)
        local factors = polyval_key(key:sub(1, 16))
        return function(payload) return polyval(factors, payload) end
    end,
    function(key)
        return function(payload) return poly1305(key, payload) end
    end,
    function(key)
        local words = words_of(key, 1, 8)
        return function(payload) return blake3(payload, words, KEYED):sub(1, 16) end
    end,
}

local secrets, opened

local function read_log(name)
    local file, all, known = io.open(name), {}, {}
    for line in file and file:lines() or function() end do
        local session, suite, digits = line:match("^ethbcast%-secret (%x+) ([123]) (%x+)%s*$")
        -- Each host of a session logs the group's.
        if session and #digits == 64 and not known[line] then
            known[line] = true
            local secret = digits:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
            local number = tonumber(session, 16)
            all[number] = all[number] or {}
            table.insert(all[number], {
                tag_key = words_of(derive("ethbcast 7 tag", secret), 1, 8),
                hash = HASHES[tonumber(suite)](derive("ethbcast 7 hash", secret)),
                veil = schedule(derive("ethbcast 7 veil", secret)),
            })
        end
    end
    if file then
        file:close()
    end
    return all
end

local STREAM_KINDS = {
    DATA = true, PARITY = true, ACK = true, HEARTBEAT = true, PROBE = true, ECHO = true, REPORT = true,
    PUSH = true, PULL = true, NOTE = true, RECEIPT = true, ASK = true,
}
local SIGNED_KINDS = { VIEW = true, VERDICT = true, ABORT = true }
local SIGNATURE_BYTES = 64

-- The payload as it is without a key, and without its signature; nil if no secret of the log has made its tag.
local function plain_payload(tvb, frame)
    local link = ethernet_header()
    local payload = frame.payload_bytes > 0 and tvb:raw(KEYED_BYTES, frame.payload_bytes) or ""
    local name, covered, right = KINDS[frame.kind], (link or "") .. tvb:raw(0, 14) .. tvb:raw(26, 14), nil
    for _, secret in ipairs(link and secrets[frame.session] or {}) do
        local tag = blake3(covered .. secret.hash(payload), secret.tag_key, KEYED):sub(1, 12)
        right = right or tag == tvb:raw(14, 12) and secret
    end
    local is_end = name == "DATA" and frame.flags % 2 == 1
    if not right or STREAM_KINDS[name] and not is_end then
        return right and payload
    end
    local place = tvb:raw(26, 4) .. tvb:raw(4, 2) .. tvb:raw(34, 6)
    if is_end then
        place = tvb:raw(26, 4) .. ("\0"):rep(8)
        local trailer = unveiled(right.veil, place, payload, string.char(frame.kind))
        return trailer and #trailer >= SIGNATURE_BYTES and trailer:sub(1, -1 - SIGNATURE_BYTES) or payload
    end
    local body = unveiled(right.veil, place, payload, string.char(frame.kind))
    local is_signed = SIGNED_KINDS[name] or name == "STATUS" and tvb(4, 2):uint() == 0
        or name == "RESPONSE" and link:byte(1) % 2 == 1
    if name == "KEYS" then
        return body and ""
    end
    if body and is_signed then
        return #body >= SIGNATURE_BYTES and body:sub(1 + SIGNATURE_BYTES) or nil
    end
    return body
end

-- A reader of a body: every field is added to the tree under its name, and remembered for the line of the list.

local Reader = {}
Reader.__index = Reader

local function reader(tvb, tree, frame)
    return setmetatable({
        tvb = tvb, tree = tree, frame = frame, at = 0, left = tvb:len(), said = {}, known = {}, cursor = frame.sequence,
    }, Reader)
end

function Reader:take(count)
    if count > self.left then
        error({ malformed = true })
    end
    -- A range of no bytes begins nowhere: the last byte stands for it.
    local range = count > 0 and self.tvb(self.at, count) or nil
    self.at, self.left = self.at + count, self.left - count
    return range
end

function Reader:say(name, range, value)
    if range then
        self.tree:add(body[name], range, value)
    else
        self.tree:add(body[name], value)
    end
    self.known[name] = value
    self.said[#self.said + 1] = name .. " " .. tostring(value)
end

local function fail(condition)
    if not condition then
        error({ malformed = true })
    end
end

function Reader:peek(count)
    return self:take(count):uint()
end

-- Bytes up to the end of the body or, behind a length, as many as that says.
function Reader:bitmap()
    return self:take(self.bitmap_bytes or self.left)
end

local function popcount(range)
    local count = 0
    for at = 0, range:len() - 1 do
        local byte = range(at, 1):uint()
        while byte > 0 do
            count = count + byte % 2
            byte = math.floor(byte / 2)
        end
    end
    return count
end

-- The ranks whose bits are set, as 1-3,5.
local function ranks(range)
    local runs, begin = {}, nil
    local function set(rank)
        local at = math.floor(rank / 8)
        return range and at < range:len() and math.floor(range(at, 1):uint() / 2 ^ (rank % 8)) % 2 == 1
    end
    for rank = 0, (range and range:len() or 0) * 8 do
        if set(rank) then
            begin = begin or rank
        elseif begin then
            runs[#runs + 1] = begin == rank - 1 and tostring(begin) or (begin .. "-" .. (rank - 1))
            begin = nil
        end
    end
    return table.concat(runs, ",")
end

-- Parts of views that came in frames before this one, by digest; and what they were together, by frame.
local parts, views

function protocol.init()
    parts, views = {}, {}
    secrets, opened = read_log(protocol.prefs.key_log), {}
end

local function whole_view(digest, part, count, bytes, pinfo)
    if not pinfo.visited then
        local name = digest .. count
        local known = parts[name] or { count = 0 }
        parts[name] = known
        if not known[part] then
            known[part], known.count = bytes, known.count + 1
        end
        if known.count == count then
            local whole = ByteArray.new()
            for at = 0, count - 1 do
                whole:append(known[at])
            end
            parts[name], views[pinfo.number] = nil, whole
        end
    end
    return views[pinfo.number]
end

-- What a collective is identified by (§16.2), in words.
local function signature(range)
    local number, operation, root = range(0, 8):uint64(), range(8, 1):uint(), range(10, 2):uint()
    local bytes, word = range(16, 8):uint64(), OPERATIONS[operation]
    fail(word)
    local text = word .. " #" .. tostring(number)
    if operation == 2 then
        return text
    end
    text = text .. " of " .. tostring(bytes) .. " bytes" .. ((operation == 1 or operation >= 6) and "" or " each")
    if operation == 5 or operation == 7 then
        return text
    end
    return text .. ((operation == 4 or operation == 6) and " to rank " or " from rank ") .. root
end

local function is_filled_with(range, digit)
    return not tostring(range:bytes()):lower():find("[^" .. digit .. "]")
end

-- Readers of the forms in the lists: name of the field, then the form's arguments.
local forms = {}

local function read_field(from, name, words, at)
    return forms[words[at]](from, name, words, at + 1)
end

-- Reads fields; an optional one that is not there ends the list.
local function read_list(from, list)
    for _, words in ipairs(list) do
        if read_field(from, words[1], words, 2) == false then
            return
        end
    end
end

function forms.Number(from, name, words, at)
    local range = from:take(words[at])
    from:say(name, range, range:uint64())
end

function forms.Known(from, name, words, at)
    local range = from:take(words[at])
    if not is_filled_with(range, "f") then
        from:say(name, range, range:uint64())
    end
end

function forms.Nonzero(from, name, words, at)
    local range = from:take(words[at])
    if not is_filled_with(range, "0") then
        from:say(name, range, range:uint64())
    end
end

function forms.Most(from, name, words, at)
    local range = from:take(words[at])
    from:say(name, range, UInt64(math.min(range:uint(), words[at + 1])))
end

function forms.Truth(from, name)
    local range = from:take(1)
    from:say(name, range, UInt64(range:uint() ~= 0 and 1 or 0))
end

function forms.Flags(from, _, words, at)
    local range = from:take(1)
    for bit = at, #words do
        from:say(words[bit], range, UInt64(math.floor(range:uint() / 2 ^ (bit - at)) % 2))
    end
end

function forms.Hex(from, name, words, at)
    local range = from:take(words[at])
    from:say(name, range, tostring(range:bytes()):lower())
end

function forms.HexWords(from, name)
    fail(from.left >= 8)
    local range, digits = from:take(from.left - from.left % 8), {}
    for at = 0, range:len() - 1, 8 do
        digits[#digits + 1] = tostring(range:range(at, 8):bytes()):lower()
    end
    from:say(name, range, table.concat(digits, " "))
end

function forms.Word(from, name, words, at)
    local range = from:take(1)
    local word = WORDS[words[at]][range:uint()]
    fail(word)
    from:say(name, range, word)
end

-- A text behind its length.
function forms.Text(from, name)
    local length = from:peek(1)
    local range = from:take(length)
    from:say(name, range, range and range:string(ENC_UTF_8) or "")
end

function forms.Rest(from, name)
    from:say(name, from.left > 0 and from.tvb(from.at, from.left) or nil, UInt64(from.left))
    from:take(from.left)
end

function forms.Skip(from, _, words, at)
    from:take(words[at])
end

function forms.Part() end

function forms.At(from, name, words, at)
    local here, left = from.at, from.left
    from.at, from.left = words[at], from.tvb:len() - words[at]
    read_field(from, name, words, at + 1)
    from.at, from.left = here, left
end

function forms.If(from, name, words, at)
    fail(words[at] < from.tvb:len())
    local byte = from.tvb(words[at], 1):uint()
    if byte >= words[at + 1] and byte <= words[at + 2] then
        read_field(from, name, words, at + 3)
    end
end

function forms.Include(from, _, words, at)
    read_list(from, LISTS[words[at]])
end

function forms.Optional(from, _, words, at)
    return from.left >= words[at]
end

function forms.OptionalPair(from)
    return from.left >= 16 and from.tvb(from.at + 8, 8):uint64() <= from.tvb(from.at, 8):uint64()
end

function forms.Trailer(from)
    return from.frame.flags % 2 == 1 and from.left >= 40
end

function forms.Length(from)
    from.bitmap_bytes = from:peek(2)
end

function forms.Ones(from, name)
    fail(from.bitmap_bytes <= 1024)
    local range = from:bitmap()
    from:say(name, range, UInt64(range and popcount(range) or 0))
end

function forms.Ranks(from, name)
    local range = from:bitmap()
    from:say(name, range, ranks(range))
end

function forms.Ahead(from, name)
    local range = from:take(4)
    from:say(name, range, from.cursor + range:uint64())
end

function forms.Behind(from, name)
    local range = from:take(4)
    fail(range:uint64() <= from.cursor)
    from:say(name, range, from.cursor - range:uint64())
end

function forms.Cursor(from, name)
    local range = from:take(8)
    from.cursor = range:uint64()
    from:say(name, range, from.cursor)
end

function forms.Host(from, name)
    local range = from:take(6)
    fail(not is_filled_with(range, "0"))
    -- Not `ether`, which gives names to addresses.
    from:say(name, range, range:bytes():tohex(true, ":"))
end

function forms.MaybeHost(from, name)
    if from.left >= 6 and not is_filled_with(from.tvb(from.at, 6), "0") then
        forms.Host(from, name)
    end
end

-- Block and number stand in the header: the binary logarithm of the block's length above the flags.
function forms.Block(from)
    local frames = 2 ^ math.floor(from.frame.flags / 32)
    fail(frames > 1)
    local index = from.frame.sequence % UInt64(frames)
    local first = from.frame.sequence - index
    from:say("from", nil, first)
    from:say("to", nil, first + UInt64(frames))
    from:say("parity", nil, index)
end

-- What the bytes of a session are (§5).
function forms.Content(from, name)
    local kind, mode, seconds, nanos = from:take(1), from:take(2), from:take(8), from:take(4)
    -- Its upper half: how often 64 KiB are doubled.
    local number, doublings = kind:uint() % 16, (math.floor(kind:uint() / 16) + 8) % 16 - 8
    fail(WORDS.CONTENTS[number] and mode:uint() < 4096 and nanos:uint() < 1000000000)
    fail(doublings >= -2 and doublings <= 1)
    from:say(name, kind, WORDS.CONTENTS[number])
    if number ~= 0 and number ~= 2 then
        from:say("mode", mode, string.format("%04o", mode:uint()))
        from:say("modified", seconds, tostring(seconds:int64()))
    end
    from:say("chunk_bytes", kind, UInt64(65536 * 2 ^ doublings))
end

function forms.Via(from, name, words, at)
    local range = from:take(1)
    local via = WORDS[words[at]][range:uint()]
    fail(via and from.left > 0)
    from:say(name, range, via .. (range:uint() == 4 and ("=" .. from.tvb(from.at, 1):uint()) or ""))
end

-- A rate of eight bytes may follow the members; a member is longer.
function forms.Members(from, name, words, at)
    local begin, list = from.at, {}
    while from.left > 8 do
        from:take(14)
        local parent = from:peek(2)
        from:take(2)
        local standing, host = WORDS[words[at + 1]][from:peek(1)], from:take(from:peek(1))
        fail(standing)
        list[#list + 1] = #list .. ":" .. (host and host:string(ENC_UTF_8) or "")
            .. (parent ~= NONE and ("<" .. parent) or "") .. standing
    end
    from:say(name, from.tvb(begin), table.concat(list, ", "))
end

function forms.Rate(from, name)
    local range = from:take(8)
    local high, low = range(0, 4):uint(), range(4, 4):uint()
    local limit = high % 0x80000000
    if limit ~= 0x7fffffff or low ~= 0xffffffff then
        from:say(name, range, UInt64.new(low, limit))
    end
    if high ~= limit then
        from:say("yields", range, UInt64.new(1))
    end
end

function forms.Calls(from, name)
    local range = from:take(96)
    for at = 0, 72, 24 do
        if not is_filled_with(range(at, 24), "0") then
            local call = signature(range(at, 24))
            if at == 0 then
                from:say(name, range(0, 24), call)
            end
        end
    end
end

function forms.Piece(from, name)
    local at, count = from:take(2), from:take(2)
    if at:uint() < count:uint() then
        from:say(name, at, at:uint64())
        from:say("parts", count, count:uint64())
    end
end

-- A list that is cut short names nobody.
function forms.Hosts(from, name, words, at)
    local begin, named, hosts = from.at, {}, nil
    local is_whole = pcall(function()
        hosts = from:take(2)
        while from.left > 0 and #named < hosts:uint() do
            local outcome = WORDS[words[at]][from:peek(1)]
            fail(outcome)
            local host = from:take(from:peek(1))
            named[#named + 1] = (host and host:string(ENC_UTF_8) or "") .. " " .. outcome
        end
    end)
    if is_whole and hosts:uint() > 0 then
        from:say("behind", hosts, hosts:uint64())
        from:say(name, from.tvb(begin, from.at - begin), table.concat(named, ", "))
    end
end

-- What else makes a body malformed, by kind.
local checks = {}

function checks.PUSH(from)
    local known = from.known
    fail(known.offset + UInt64(from.left) <= known.pushed_bytes and known.pushed_bytes <= known.message_bytes)
end

function checks.REPORT(from)
    fail(from.known.arrived_late <= from.known.arrived and from.known.first_ns <= from.known.last_ns)
end

function checks.NEEDS(from)
    fail(from.known.set_bytes <= UInt64(129))
end

-- A view, once all parts of it are there (§6).
function checks.VIEW(from)
    local known, head = from.known, 40
    local part, count = known.part:tonumber(), known.parts:tonumber()
    local bytes = from.tvb:len() > head and from.tvb(head):bytes() or ByteArray.new()
    local whole = part < count and whole_view(known.digest, part, count, bytes, from.frame.pinfo)
    if whole then
        local inner = reader(whole:tvb("View"), from.tree, from.frame)
        inner.said = from.said
        read_list(inner, LISTS.VIEWED)
    end
end

-- The 32 bytes behind the Ethernet header (§3), or the 40 with a key (§3.1); what of them the body needs.
local function read_header(tvb, tree, bytes)
    local at = 0
    for _, words in ipairs(LISTS.HEADER) do
        local name, length = words[1], words[3]
        if name == "checksum" and bytes == KEYED_BYTES then
            name, length = "tag", 12
        end
        if words[2] ~= "Skip" then
            local item = tree:add(header[name], tvb(at, length))
            for _, flag in ipairs(name == "flags" and FLAGS or {}) do
                item:add(header[flag], tvb(at, 1))
            end
            at = at + length
        end
    end
    at = bytes - 14
    return { kind = tvb(3, 1):uint(), flags = tvb(13, 1):uint(), session = tvb(at, 4):uint(),
        payload_bytes = tvb(at + 6, 2):uint(), sequence = tvb(at + 8, 6):uint64(), header_bytes = bytes }
end

local function flag_names(flags)
    local names = {}
    for bit, flag in ipairs(FLAGS) do
        if math.floor(flags / 2 ^ (bit - 1)) % 2 == 1 then
            names[#names + 1] = flag
        end
    end
    return #names > 0 and " [" .. table.concat(names, " ") .. "]" or ""
end

-- What a frame that is whole carries.
local function read_body(tvb, pinfo, tree, frame)
    local name = KINDS[frame.kind]
    if not name then
        tree:add_proto_expert_info(malformed, "Of kind " .. frame.kind .. ", which there is not")
        return
    end
    local payload = frame.plain and ByteArray.new(frame.plain, true):tvb("Without the key")
        or frame.payload_bytes > 0 and tvb(HEADER_BYTES, frame.payload_bytes):tvb() or ByteArray.new():tvb()
    frame.pinfo = pinfo
    local from = reader(payload, tree, frame)
    local fine, problem = pcall(function()
        read_list(from, LISTS[name])
        if checks[name] then
            checks[name](from)
        end
    end)
    if not fine then
        if type(problem) ~= "table" then
            error(problem)
        end
        tree:add_proto_expert_info(malformed)
    end
    if frame.payload_bytes > 0 then
        tree:add(header.bytes, tvb(frame.header_bytes, frame.payload_bytes))
    end
    pinfo.cols.info:append(#from.said > 0 and ": " .. table.concat(from.said, ", ") or "")
end

function protocol.dissector(tvb, pinfo, root)
    if tvb:reported_len() < HEADER_BYTES or tvb:len() < 4 or tvb(0, 2):uint() ~= MAGIC then
        return 0
    end
    pinfo.cols.protocol = "ethbcast"
    local tree = root:add(protocol, tvb())
    local version = tvb(2, 1):uint()
    if version ~= VERSION and version ~= KEYED_VERSION then
        tree:add(header.magic, tvb(0, 2))
        tree:add(header.version, tvb(2, 1))
        tree:add_proto_expert_info(other_version, "Of version " .. version .. " of the protocol")
        pinfo.cols.info = "version " .. version
        return tvb:len()
    end
    local header_bytes = version == KEYED_VERSION and KEYED_BYTES or HEADER_BYTES
    if tvb:len() < header_bytes then
        tree:add_proto_expert_info(tvb:reported_len() < header_bytes and malformed or cut)
        return tvb:len()
    end
    local frame = read_header(tvb, tree, header_bytes)
    pinfo.cols.info = (KINDS[frame.kind] or ("kind " .. frame.kind)) .. " session "
        .. string.format("%08x", frame.session) .. " seq " .. tostring(frame.sequence) .. flag_names(frame.flags)
    local end_at = header_bytes + frame.payload_bytes
    if end_at > tvb:len() then
        tree:add_proto_expert_info(end_at <= tvb:reported_len() and cut or malformed)
    elseif version == KEYED_VERSION then
        if opened[pinfo.number] == nil then
            opened[pinfo.number] = plain_payload(tvb, frame) or false
        end
        frame.plain = opened[pinfo.number]
        if frame.plain then
            read_body(tvb, pinfo, tree, frame)
        else
            tree:add_proto_expert_info(keyed)
        end
    elseif protocol.prefs.check and checksum_fits(tvb, frame.payload_bytes) == false then
        tree:add_proto_expert_info(damaged)
    else
        read_body(tvb, pinfo, tree, frame)
    end
    return tvb:len()
end

local ether_types, registered = DissectorTable.get("ethertype"), nil

local function register()
    if registered then
        ether_types:remove(registered, protocol)
    end
    registered = protocol.prefs.ether_type
    ether_types:add(registered, protocol)
end

function protocol.prefs_changed()
    register()
end
register()

// A Verilated engine as a shared library: frames in and out of its ports, registers, cycles. C functions, for ctypes.
//
// The model is compiled in: MODEL is its class (Vepic_mode3), MODEL_HEADER its header, PORTS and DATA_W its parameters. TIMERS
// is the path of a Mode II engine's timers, CLOCK that of its clock, MODEL_ROOT the header that declares both.
// One call of run advances the clock; between calls time stands still, as for an engine in virtual time.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include MODEL_HEADER
#include "verilated.h"
#ifdef TRACE
#include "verilated_fst_c.h"
#endif
#ifdef TIMERS
#include MODEL_ROOT
#define PATH_(path, rest) path##__DOT__##rest
#define PATH(path, rest) PATH_(path, rest)
#endif

namespace {

constexpr unsigned BYTES = DATA_W / 8;
constexpr size_t ENTERED = 65536;

struct Frame {
    std::vector<uint8_t> data;
    bool bad = false;
    uint64_t first = 0;  // cycle of its first beat
    uint64_t last = 0;
};

// xorshift: repeatable stalls.
struct Chance {
    uint64_t state = 88172645463325252ull;
    bool in_256(unsigned parts) {
        if (parts == 0) return false;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state & 255) < parts;
    }
};

struct Port {
    std::deque<Frame> in;
    size_t offset = 0;     // of the frame that is going in
    bool offered = false;  // a beat is on the wires and must stay
    uint64_t started = 0;
    Frame out;
};

// Every Verilator type of a port is its bits in order, least significant byte first.
template <class T>
uint8_t* bytes_of(T& signal) {
    return reinterpret_cast<uint8_t*>(&signal);
}

template <class T>
bool bit_of(const T& signal, unsigned p) {
    return signal >> p & 1;
}

class Device {
public:
    explicit Device(const char* trace) : context_(new VerilatedContext), model_(new MODEL(context_.get())) {
#ifdef TRACE
        context_->traceEverOn(true);
        if (trace != nullptr) {
            trace_.reset(new VerilatedFstC);
            model_->trace(trace_.get(), 99);
            trace_->open(trace);
        }
#else
        (void)trace;
#endif
        reset();
    }

    ~Device() {
        model_->final();
#ifdef TRACE
        if (trace_) trace_->close();
#endif
    }

    void reset() {
        for (auto& port : ports_) port = Port();
        done_.clear();
        entered_.clear();
        inputs_ = MODEL_IN();
        inputs_.rst = true;
        for (int i = 0; i < 4; i++) cycle();
        inputs_.rst = false;
        for (int i = 0; i < 80; i++) cycle();  // counters are cleared
        last_activity_ = cycles_;
    }

    void push(unsigned port, const uint8_t* data, size_t length, bool bad) {
        Frame frame;
        frame.data.assign(data, data + length);
        frame.bad = bad;
        ports_[port].in.push_back(std::move(frame));
    }

    // Advances until nothing has moved at any port for `quiet` cycles and the core has nothing to do: what it has to do
    // may take longer than that without a beat at a port. A port that is held keeps it from having nothing to do, so then
    // `quiet` alone decides. False: not within `limit` cycles.
    bool settle(uint64_t quiet, uint64_t limit) {
        const uint64_t end = cycles_ + limit;
        last_activity_ = cycles_;
        while (cycles_ < end) {
            cycle();
            if (cycles_ - last_activity_ <= quiet) continue;
            uint32_t status = 0;
            if (!read(STATUS, &status)) return false;
            if ((status & IDLE || held_) && cycles_ - last_activity_ > quiet) return true;
        }
        return false;
    }

    // Microseconds until the next timer is due, 0 for one that is due already; false: none is armed.
    bool next_timer(uint32_t* microseconds) const {
#ifdef TIMERS
        const auto& root = *model_->rootp;
        const auto& deadlines = root.PATH(TIMERS, deadlines__DOT__words);
        const auto* armed = reinterpret_cast<const uint8_t*>(&root.PATH(TIMERS, armed_reg));
        const uint32_t now = root.PATH(CLOCK, now);
        bool found = false;
        for (size_t e = 0; e < deadlines.size(); e++) {
            if (!(armed[e / 8] >> e % 8 & 1)) continue;
            const int32_t left = static_cast<int32_t>(deadlines[e] - now);
            const uint32_t wait = left < 0 ? 0 : static_cast<uint32_t>(left);
            if (!found || wait < *microseconds) *microseconds = wait;
            found = true;
        }
        return found;
#else
        (void)microseconds;
        return false;
#endif
    }

    void run(uint64_t count) {
        for (uint64_t i = 0; i < count; i++) cycle();
    }

    bool read(uint32_t address, uint32_t* value) {
        inputs_.arvalid = true;
        inputs_.araddr = address;
        bool taken = false;
        for (int i = 0; i < LIMIT; i++) {
            model_->s_axil_rready = 1;
            const Seen seen = cycle();
            if (seen.ar) inputs_.arvalid = false, taken = true;
            if (taken && seen.r) {
                *value = seen.rdata;
                return true;
            }
        }
        inputs_.arvalid = false;
        return false;
    }

    bool write(uint32_t address, uint32_t value) {
        inputs_.wvalid = true;
        inputs_.awaddr = address;
        inputs_.wdata = value;
        bool taken = false;
        for (int i = 0; i < LIMIT; i++) {
            const Seen seen = cycle();
            if (seen.w) inputs_.wvalid = false, taken = true;
            if (taken && seen.b) return true;
        }
        inputs_.wvalid = false;
        return false;
    }

    void stalls(unsigned in, unsigned out, uint64_t seed) {
        idle_ = in;
        busy_ = out;
        chance_.state = seed * 2654435769ull + 1;
    }

    // What a port does from now on: whether it takes frames.
    void hold(unsigned port, bool held) {
        if (held) held_ |= 1u << port;
        else held_ &= ~(1u << port);
    }

    uint64_t cycles() const { return cycles_; }

    struct Done {
        unsigned port;
        Frame frame;
    };
    std::deque<Done> done_;
    std::deque<std::pair<unsigned, std::pair<uint64_t, uint64_t>>> entered_;

private:
    static constexpr int LIMIT = 100000;
    static constexpr uint32_t STATUS = 0x024, IDLE = 2;  // of the register map in rtl/README.md

    struct MODEL_IN {
        bool rst = false, arvalid = false, wvalid = false;
        uint32_t araddr = 0, awaddr = 0, wdata = 0;
    };
    struct Seen {
        bool ar, r, w, b;
        uint32_t rdata;
    };

    Seen cycle() {
        MODEL& m = *model_;
        drive();
        m.clk = 0;
        m.eval();
        dump(0);
        const Seen seen = {m.s_axil_arvalid && m.s_axil_arready, m.s_axil_rvalid && m.s_axil_rready,
                           m.s_axil_awvalid && m.s_axil_awready && m.s_axil_wready, m.s_axil_bvalid && m.s_axil_bready,
                           m.s_axil_rdata};
        if (!inputs_.rst) sample();
        m.clk = 1;
        m.eval();
        dump(1);
        cycles_++;
        return seen;
    }

    void drive() {
        MODEL& m = *model_;
        m.rst = inputs_.rst;
        m.s_axil_arvalid = inputs_.arvalid;
        m.s_axil_araddr = inputs_.araddr;
        m.s_axil_awvalid = inputs_.wvalid;
        m.s_axil_wvalid = inputs_.wvalid;
        m.s_axil_awaddr = inputs_.awaddr;
        m.s_axil_wdata = inputs_.wdata;
        m.s_axil_wstrb = 15;
        m.s_axil_bready = 1;
        m.s_axil_rready = 1;
        unsigned valid = 0, last = 0, user = 0, ready = 0;
        for (unsigned p = 0; p < PORTS; p++) {
            Port& port = ports_[p];
            if (!inputs_.rst && !port.in.empty() && (port.offered || !chance_.in_256(idle_))) {
                const Frame& frame = port.in.front();
                const size_t left = frame.data.size() - port.offset;
                const size_t count = left < BYTES ? left : BYTES;
                uint8_t beat[BYTES] = {0};
                uint8_t keep[BYTES / 8] = {0};
                std::memcpy(beat, frame.data.data() + port.offset, count);
                for (size_t i = 0; i < count; i++) keep[i / 8] |= 1 << i % 8;
                std::memcpy(bytes_of(m.s_axis_tdata) + p * BYTES, beat, BYTES);
                std::memcpy(bytes_of(m.s_axis_tkeep) + p * BYTES / 8, keep, BYTES / 8);
                valid |= 1u << p;
                if (left <= BYTES) {
                    last |= 1u << p;
                    if (frame.bad) user |= 1u << p;
                }
                port.offered = true;
            }
            if (!(held_ >> p & 1) && !chance_.in_256(busy_)) ready |= 1u << p;
        }
        m.s_axis_tvalid = valid;
        m.s_axis_tlast = last;
        m.s_axis_tuser = user;
        m.m_axis_tready = ready;
    }

    void sample() {
        MODEL& m = *model_;
        for (unsigned p = 0; p < PORTS; p++) {
            Port& port = ports_[p];
            if (!port.in.empty()) last_activity_ = cycles_;
            if (bit_of(m.s_axis_tvalid, p)) {
                if (bit_of(m.s_axis_tready, p)) {
                    port.offered = false;
                    if (port.offset == 0) port.started = cycles_;
                    port.offset += BYTES;
                    if (bit_of(m.s_axis_tlast, p)) {
                        entered_.push_back({p, {port.started, cycles_}});
                        if (entered_.size() > ENTERED) entered_.pop_front();  // nobody asks
                        port.in.pop_front();
                        port.offset = 0;
                    }
                }
            }
            if (bit_of(m.m_axis_tvalid, p)) {
                if (!(held_ >> p & 1)) last_activity_ = cycles_;
                if (bit_of(m.m_axis_tready, p)) {
                    Frame& out = port.out;
                    if (out.data.empty()) out.first = cycles_;
                    const uint8_t* data = bytes_of(m.m_axis_tdata) + p * BYTES;
                    const uint8_t* keep = bytes_of(m.m_axis_tkeep) + p * BYTES / 8;
                    for (unsigned i = 0; i < BYTES; i++)
                        if (keep[i / 8] >> i % 8 & 1) out.data.push_back(data[i]);
                    if (bit_of(m.m_axis_tlast, p)) {
                        out.last = cycles_;
                        done_.push_back({p, std::move(out)});
                        out = Frame();
                    }
                }
            }
        }
    }

    void dump(int half) {
#ifdef TRACE
        if (trace_) trace_->dump(cycles_ * 4 + half * 2);
#else
        (void)half;
#endif
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<MODEL> model_;
#ifdef TRACE
    std::unique_ptr<VerilatedFstC> trace_;
#endif
    Port ports_[PORTS];
    MODEL_IN inputs_;
    Chance chance_;
    unsigned idle_ = 0, busy_ = 0, held_ = 0;
    uint64_t cycles_ = 0, last_activity_ = 0;
};

}  // namespace

extern "C" {

// `trace`: a file for waveforms (FST), or null. Null without memory.
void* epic_rtl_create(const char* trace) { return new (std::nothrow) Device(trace); }

void epic_rtl_destroy(void* device) { delete static_cast<Device*>(device); }

void epic_rtl_reset(void* device) { static_cast<Device*>(device)->reset(); }

// Queues a frame for a port; `bad`: its last beat has tuser set. 0 when there is no such port or the frame is empty.
int epic_rtl_push(void* device, unsigned port, const uint8_t* data, size_t length, int bad) {
    if (port >= PORTS || length == 0) return 0;
    static_cast<Device*>(device)->push(port, data, length, bad != 0);
    return 1;
}

void epic_rtl_run(void* device, uint64_t cycles) { static_cast<Device*>(device)->run(cycles); }

int epic_rtl_settle(void* device, uint64_t quiet, uint64_t limit) {
    return static_cast<Device*>(device)->settle(quiet, limit);
}

int epic_rtl_next_timer(void* device, uint32_t* microseconds) {
    return static_cast<Device*>(device)->next_timer(microseconds);
}

// The next frame that left: its length, or -1 when there is none, or -2 when `capacity` is too small (it stays).
long epic_rtl_pop(void* device, unsigned* port, uint8_t* data, size_t capacity, uint64_t* first, uint64_t* last) {
    auto& done = static_cast<Device*>(device)->done_;
    if (done.empty()) return -1;
    const auto& next = done.front();
    const size_t length = next.frame.data.size();
    if (length > capacity) return -2;
    *port = next.port;
    *first = next.frame.first;
    *last = next.frame.last;
    std::memcpy(data, next.frame.data.data(), length);
    done.pop_front();
    return static_cast<long>(length);
}

// When the next frame that has gone in did: its first and last beat. 0 when there is none.
int epic_rtl_entered(void* device, unsigned* port, uint64_t* first, uint64_t* last) {
    auto& entered = static_cast<Device*>(device)->entered_;
    if (entered.empty()) return 0;
    *port = entered.front().first;
    *first = entered.front().second.first;
    *last = entered.front().second.second;
    entered.pop_front();
    return 1;
}

// Registers: 0 when the device does not answer.
int epic_rtl_read(void* device, uint32_t address, uint32_t* value) {
    return static_cast<Device*>(device)->read(address, value);
}

int epic_rtl_write(void* device, uint32_t address, uint32_t value) {
    return static_cast<Device*>(device)->write(address, value);
}

// Idle cycles of the senders and busy ones of the receivers, at random: so many in 256.
void epic_rtl_stalls(void* device, unsigned in, unsigned out, uint64_t seed) {
    static_cast<Device*>(device)->stalls(in, out, seed);
}

// A port whose other end takes nothing, until it is let go.
void epic_rtl_hold(void* device, unsigned port, int held) {
    if (port < PORTS) static_cast<Device*>(device)->hold(port, held != 0);
}

uint64_t epic_rtl_cycles(void* device) { return static_cast<Device*>(device)->cycles(); }

}

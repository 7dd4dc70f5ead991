// The workload of `epic bench sim` in ns-3, for comparison: pairs of hosts with two forwarding nodes between them, on
// point-to-point links. Each end sends `2 * shard` packets; packet j goes when j - shard packets of the other end have
// come and fewer than `window` are not acknowledged. Every packet is acknowledged by one of 86 bytes. This is a ring
// AllReduce of two ranks as packetsim has it. Devices call functions here: no IP, no sockets, the least that ns-3 can do.
//
// Arguments: pairs, shard, window, scheduler. Prints one line of JSON.

#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <ctime>
#include <iostream>
#include <vector>

using namespace ns3;

// On the wire 1110 and 86 bytes: the device adds two of PPP.
constexpr uint32_t DATA = 1108, ACK = 84;
constexpr uint16_t PROTOCOL = 0x0800;
constexpr int HOPS = 3;

static uint64_t g_hops = 0;
static uint64_t g_open = 0;

struct End
{
    Ptr<NetDevice> device;
    uint64_t next = 0, una = 0, got = 0, shard = 0, window = 0;

    void Transmit(uint32_t size)
    {
        device->Send(Create<Packet>(size), device->GetBroadcast(), PROTOCOL);
    }

    void Pump()
    {
        while (next < 2 * shard && next < shard + got && next - una < window)
        {
            next++;
            Transmit(DATA);
        }
    }

    bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        g_hops++;
        if (packet->GetSize() == ACK)
        {
            una++;
        }
        else
        {
            got++;
            Transmit(ACK);
            if (got == 2 * shard && --g_open == 0)
            {
                Simulator::Stop();
            }
        }
        Pump();
        return true;
    }
};

struct Forwarder
{
    Ptr<NetDevice> out;

    bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address&)
    {
        g_hops++;
        out->Send(packet->Copy(), out->GetBroadcast(), protocol);
        return true;
    }
};

int
main(int count, char** words)
{
    if (count != 5)
    {
        std::cerr << "usage: ns3_peer PAIRS SHARD WINDOW SCHEDULER\n";
        return 2;
    }
    const size_t pairs = std::stoul(words[1]);
    const uint64_t shard = std::stoull(words[2]), window = std::stoull(words[3]);
    Time::SetResolution(Time::PS);
    GlobalValue::Bind("SchedulerType", StringValue(words[4]));

    PointToPointHelper links;
    links.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
    links.SetChannelAttribute("Delay", StringValue("500ns"));
    links.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
    std::vector<End> ends(2 * pairs);
    std::vector<Forwarder> forwarders(2 * (HOPS - 1) * pairs);
    size_t next = 0;
    for (size_t pair = 0; pair < pairs; ++pair)
    {
        NodeContainer nodes;
        nodes.Create(HOPS + 1);
        std::vector<NetDeviceContainer> wires;
        for (int hop = 0; hop < HOPS; ++hop)
        {
            wires.push_back(links.Install(nodes.Get(hop), nodes.Get(hop + 1)));
        }
        for (int side = 0; side < 2; ++side)
        {
            End& end = ends[2 * pair + side];
            end.device = side ? wires[HOPS - 1].Get(1) : wires[0].Get(0);
            end.shard = shard;
            end.window = window;
            end.device->SetReceiveCallback(MakeCallback(&End::Receive, &end));
            Simulator::ScheduleNow(&End::Pump, &end);
        }
        for (int hop = 0; hop + 1 < HOPS; ++hop)
        {
            Forwarder& onwards = forwarders[next++];
            onwards.out = wires[hop + 1].Get(0);
            wires[hop].Get(1)->SetReceiveCallback(MakeCallback(&Forwarder::Receive, &onwards));
            Forwarder& back = forwarders[next++];
            back.out = wires[hop].Get(1);
            wires[hop + 1].Get(0)->SetReceiveCallback(MakeCallback(&Forwarder::Receive, &back));
        }
    }
    g_open = 2 * pairs;
    const clock_t begin = clock();
    Simulator::Run();
    const double seconds = double(clock() - begin) / CLOCKS_PER_SEC;
    std::cout << "{\"hops\": " << g_hops << ", \"events\": " << Simulator::GetEventCount()
              << ", \"cpu_s\": " << seconds << ", \"completion_ps\": " << Simulator::Now().GetPicoSeconds() << "}\n";
    Simulator::Destroy();
    return 0;
}

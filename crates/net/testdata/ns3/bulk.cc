// Bulk flows over a star of three hosts with the settings of PredicTor's public example: bytes delivered every half second. See README.md.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

using namespace ns3;

// No congestion window and no threshold.
class FreeWindow : public TcpCongestionOps
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("FreeWindow").SetParent<TcpCongestionOps>().AddConstructor<FreeWindow>();
        return id;
    }
    std::string GetName() const override { return "FreeWindow"; }
    uint32_t GetSsThresh(Ptr<const TcpSocketState>, uint32_t) override { return UINT32_MAX; }
    void IncreaseWindow(Ptr<TcpSocketState> state, uint32_t) override { state->m_cWnd = UINT32_MAX; }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<FreeWindow>(this); }
};

struct Flow
{
    int from;
    int to;
    uint64_t delivered = 0;
};

static std::vector<Flow> flows;
static std::map<Ptr<Socket>, Flow*> receivers;

static void Read(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv())
    {
        receivers[socket]->delivered += packet->GetSize();
    }
}

static void Write(Ptr<Socket> socket, uint32_t)
{
    while (socket->GetTxAvailable() > 0)
    {
        if (socket->Send(Create<Packet>(std::min<uint32_t>(socket->GetTxAvailable(), 16384))) <= 0)
        {
            return;
        }
    }
}

static void Connected(Ptr<Socket> socket)
{
    Write(socket, 0);
}

static void Accepted(Flow* flow, Ptr<Socket> socket, const Address&)
{
    receivers[socket] = flow;
    socket->SetRecvCallback(MakeCallback(&Read));
}

static void Report(const char* scenario)
{
    std::printf("%s\t%ld", scenario, Simulator::Now().GetMilliSeconds());
    for (size_t index = 0; index < 2; index++)
    {
        std::printf("\t%s", index < flows.size() ? std::to_string(flows[index].delivered).c_str() : "");
    }
    std::printf("\n");
    Simulator::Schedule(MilliSeconds(500), &Report, scenario);
}

int main(int, char** arguments)
{
    std::string scenario = arguments[1];
    flows = {{1, 0}};
    if (scenario == "cross")
    {
        flows.push_back({0, 2});
    }
    else if (scenario != "one")
    {
        flows.push_back({2, 0});
    }
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(5));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(536));
    Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(FreeWindow::GetTypeId()));

    const char* rates[] = {"4Mbps", "10Mbps", "10Mbps"};
    NodeContainer nodes;
    nodes.Create(4);
    InternetStackHelper().Install(nodes);
    TrafficControlHelper above;
    above.SetRootQueueDisc("ns3::PfifoFastQueueDisc", "MaxSize", StringValue(scenario == "drop" ? "100p" : "1000p"));
    std::vector<Ipv4Address> addresses;
    for (int host = 0; host < 3; host++)
    {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", StringValue(rates[host]));
        link.SetChannelAttribute("Delay", StringValue("20ms"));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100p"));
        NetDeviceContainer devices = link.Install(nodes.Get(3), nodes.Get(host));
        above.Install(devices);
        Ipv4AddressHelper network;
        network.SetBase(Ipv4Address(("10.0." + std::to_string(host) + ".0").c_str()), "255.255.255.0");
        addresses.push_back(network.Assign(devices).GetAddress(1));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    std::vector<Ptr<Socket>> sockets;

    for (Flow& flow : flows)
    {
        uint16_t port = 9000 + (&flow - flows.data());
        Ptr<Socket> listener = Socket::CreateSocket(nodes.Get(flow.to), TcpSocketFactory::GetTypeId());
        listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
        listener->Listen();
        listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeBoundCallback(&Accepted, &flow));
        Ptr<Socket> sender = Socket::CreateSocket(nodes.Get(flow.from), TcpSocketFactory::GetTypeId());
        sender->SetConnectCallback(MakeCallback(&Connected), MakeNullCallback<void, Ptr<Socket>>());
        sender->SetSendCallback(MakeCallback(&Write));
        sockets.insert(sockets.end(), {listener, sender});
        sender->Bind();
        InetSocketAddress peer(addresses[flow.to], port);
        Simulator::Schedule(Seconds(0), [sender, peer]() { sender->Connect(peer); });
    }
    Simulator::Schedule(MilliSeconds(500), &Report, arguments[1]);
    Simulator::Stop(MilliSeconds(10001));
    Simulator::Run();
    Simulator::Destroy();
}

graph [
  directed 0
  node [
    id 0
    label "node 0"
    country_code "US"
    host_bandwidth_up "20 Mbit"
    host_bandwidth_down "30 Mbit"
  ]
  node [
    id 1
    label "node 1"
    country_code "DE"
    host_bandwidth_up "20 Mbit"
    host_bandwidth_down "30 Mbit"
  ]
  node [
    id 2
    label "node 2"
    country_code "NL"
    host_bandwidth_up "20 Mbit"
    host_bandwidth_down "30 Mbit"
  ]
  node [
    id 3
    label "node 3"
    country_code "FR"
    host_bandwidth_up "20 Mbit"
    host_bandwidth_down "30 Mbit"
  ]
  node [
    id 4
    label "node 4"
    host_bandwidth_up "20 Mbit"
    host_bandwidth_down "30 Mbit"
  ]
  edge [
    source 0
    target 1
    latency "45 ms"
    packet_loss 0.0
  ]
]

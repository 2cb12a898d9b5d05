//! Each kind of load: what it gives, what it refuses, and its mean.

use super::*;
use onionlab_quantities::Seed;
use proptest::prelude::*;

fn load(text: &str) -> LoadModel {
    let load: LoadModel = toml::from_str(text).unwrap();
    load.validate().unwrap();
    assert_eq!(toml::from_str::<LoadModel>(&toml::to_string(&load).unwrap()).unwrap(), load);
    load
}

fn stream(client: &str) -> RandomStream {
    RandomStream::new(Seed(1), client, "load")
}

const WEB: &str = "kind = \"web\"\nsize = \"320 KiB\"\npause = { uniform = [\"1 s\", \"20 s\"] }";

#[test]
fn a_web_client_pauses_for_a_time_of_its_own() {
    let web = load(WEB);
    let transfers: Vec<Transfer> = (0..1000).map(|k| web.transfer(stream("client1"), k).unwrap()).collect();
    for transfer in &transfers {
        assert_eq!((transfer.size.get(), transfer.request), (327_680, DEFAULT_REQUEST));
        assert!((1.0..=20.0).contains(&transfer.pause_after.as_secs_f64()));
    }
    let mean = transfers.iter().map(|t| t.pause_after.as_secs_f64()).sum::<f64>() / 1000.0;
    assert!((mean - 10.5).abs() < 5.0 * 5.48 / 1000.0_f64.sqrt(), "{mean}");
    assert_ne!(transfers[0], transfers[1]);
    assert_ne!(web.transfer(stream("client2"), 0), Some(transfers[0]));
}

#[test]
fn a_bulk_client_goes_on_at_once() {
    let bulk = load("kind = \"bulk\"\nsize = \"5 MiB\"\nrequest = \"1 kB\"");
    let headed = load("kind = \"bulk\"\nsize = \"5 MiB\"\nheader = \"68 B\"");
    assert_eq!(headed.transfer(stream("client1"), 0).unwrap().header, Bytes::new(68));
    let expected =
        Transfer { size: Bytes::new(5_242_880), request: Bytes::new(1_000), header: Bytes::ZERO, pause_after: SimDuration::ZERO };
    assert_eq!(bulk.transfer(stream("client1"), 1_000_000), Some(expected));
}

#[test]
fn a_sequence_ends() {
    let text = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", count = 2, pause = \"5 s\" }, { size = \"1 MB\" }]";
    let sequence = load(text);
    let sizes: Vec<_> = (0..5).map(|k| sequence.transfer(stream("client1"), k).map(|t| t.size.get())).collect();
    assert_eq!(sizes, [Some(50_000), Some(50_000), Some(1_000_000), None, None]);
    assert_eq!(sequence.transfer(stream("client1"), 1).unwrap().pause_after, SimDuration::from_secs(5));
}

#[test]
fn each_transfer_is_a_flow_of_one_download() {
    let text = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", pause = \"5 s\" }]\nheader = \"68 B\"";
    let sequence = load(text);
    assert_eq!((sequence.pace(), sequence.isolates()), (Pace::AfterPrevious, false));
    let mut flow = sequence.flow(stream("client1"), 0).unwrap();
    assert_eq!((flow.pause, flow.parallel), (SimDuration::from_secs(5), 1));
    let plan = flow.next().unwrap();
    assert_eq!((plan.delay, plan.after_all, plan.timeout, plan.port), (SimDuration::ZERO, false, None, 443));
    let Exchange::Download { request, size, header, .. } = plan.exchange else { panic!("{plan:?}") };
    assert_eq!((request.get(), size.get(), header.get()), (200, 50_000, 68));
    assert!(flow.next().is_none());
    assert!(sequence.flow(stream("client1"), 1).is_none());
    assert_eq!((sequence.transfers(), load(WEB).transfers()), (Some(1), None));
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    for (text, words) in [
        ("kind = \"bulk\"\nsize = \"0 B\"", "size = \"0 B\": it must be at least 1 B"),
        ("kind = \"bulk\"\nsize = \"1 B\"\nrequest = \"0 B\"", "request = \"0 B\": it must be at least 1 B"),
        ("kind = \"bulk\"\nsize = \"1 B\"\nport = 0", "port = 0: it must be from 1 to 65535"),
        ("kind = \"audio\"\ninterval = \"10 ms\"", "interval = \"10 ms\": it must be from 20 ms to 1 h"),
        ("kind = \"video\"\nahead = \"2 h\"", "ahead = \"2 h\": it must be at most 1 h"),
        ("kind = \"video\"\nrate = \"1 bit/s\"", "rate = \"1 bit/s\": it must be from 1 B/s to 1 GB/s"),
        (
            "kind = \"audio\"\nlength = { uniform = [\"2 s\", \"1 s\"] }",
            "length.uniform = [\"2 s\", \"1 s\"]: the first value must not be greater than the second",
        ),
        ("kind = \"page\"\npause = \"1 s\"\nparallel = 0", "parallel = 0: it must be from 1 to 1000"),
        ("kind = \"page\"\npause = \"1 s\"\nobjects = 100001", "objects = 100001: it must be at most 100000"),
        (
            "kind = \"page\"\npause = \"1 s\"\nobjects = { log-normal = { median = 0.0, sigma = 1.0 } }",
            "objects.log-normal.median = 0: it must be above 0 and at most 100000",
        ),
        (
            "kind = \"page\"\npause = \"1 s\"\nobjects = { log-normal = { median = 5.0, sigma = 11.0 } }",
            "objects.log-normal.sigma = 11: it must be above 0 and at most 10",
        ),
        ("kind = \"perf\"\nsizes = []", "sizes = a list of 0 entries: it must have 1 to 100 entries"),
        ("kind = \"perf\"\npause = \"0\"", "pause = \"0 ns\": it must be from 1 ms to 7 d"),
        (
            "kind = \"perf\"\nsizes = [{ size = \"1 B\", weight = -1.0, timeout = \"1 s\" }]",
            "sizes[0].weight = -1: it must be above 0 and at most 1000000000",
        ),
        (
            "kind = \"perf\"\nsizes = [{ size = \"1 B\", weight = 1.0, timeout = \"0\" }]",
            "sizes[0].timeout = \"0 ns\": it must be from 1 ms to 7 d",
        ),
        ("kind = \"tor-users\"\nflow-interval = \"0\"", "flow-interval = \"0 ns\": it must be from 1 ms to 7 d"),
        ("kind = \"bulk\"\nsize = \"1 B\"\nheader = \"0 B\"", "header = \"0 B\": it must be at least 1 B"),
        ("kind = \"perf\"\nanswer-after = \"0 B\"", "answer-after = \"0 B\": it must be at least 1 B and at most the request"),
        (
            "kind = \"perf\"\nrequest = \"99 B\"\nanswer-after = \"100 B\"",
            "answer-after = \"100 B\": it must be at least 1 B and at most the request",
        ),
        (
            "kind = \"perf\"\nsplit-requests = [{ after = \"2 kB\", share = 0.5 }]",
            "split-requests[0].after = \"2 kB\": it must be at least 1 B and at most the request",
        ),
        (
            "kind = \"perf\"\nsplit-requests = [{ after = \"9 B\", share = 0.5 }, { after = \"99 B\", share = 0.6 }]",
            "split-requests[1].share = 0.6: it must be at least 0, and all shares together at most 1",
        ),
        ("kind = \"perf\"\nsplit-requests = []", "split-requests = a list of 0 entries: it must have 1 to 100 entries"),
        ("kind = \"sequence\"\ntransfers = []", "transfers = []: at least one transfer is needed"),
        ("kind = \"sequence\"\ntransfers = [{ size = \"1 B\", count = 0 }]", "transfers[0].count = 0: it must be at least 1"),
        (
            "kind = \"sequence\"\ntransfers = [{ size = \"1 B\", pause = { pareto = { minimum = \"1 s\", shape = 0.0 } } }]",
            "transfers[0].pause.pareto.shape = 0: it must be a finite number above zero",
        ),
    ] {
        let load: LoadModel = toml::from_str(text).unwrap();
        assert_eq!(load.validate().unwrap_err().to_string(), words);
    }
    for (text, words) in [
        (
            "kind = \"sporadic\"\nsize = \"1 B\"",
            "unknown variant `sporadic`, expected one of `bulk`, `web`, `sequence`, `audio`, `video`, `page`, `perf`, `markov`, `tor-users`",
        ),
        ("kind = \"web\"\nsize = \"1 B\"", "missing field `pause`"),
        ("kind = \"page\"\nsize = \"1 B\"\npause = \"1 s\"", "unknown field `size`"),
        ("kind = \"page\"\npause = \"1 s\"\nobjects = \"many\"", "expected a whole number or { log-normal = { median, sigma } }"),
        ("kind = \"markov\"\nstreams = \"a\"", "missing field `packets`"),
        ("kind = \"markov\"\nstreams = \"a\"\npackets = \"b\"\ndigests = [\"c\", \"d\"]", "unknown field `digests`"),
        ("kind = \"bulk\"\nsize = \"1 B\"\ncolour = \"red\"", "unknown field `colour`"),
        ("size = \"1 B\"", "missing field `kind`"),
    ] {
        let error = toml::from_str::<LoadModel>(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_schema_knows_every_key() {
    let schema = serde_json::to_string(&schemars::schema_for!(LoadModel)).unwrap();
    for word in [
        "bulk",
        "web",
        "sequence",
        "audio",
        "video",
        "page",
        "perf",
        "markov",
        "tor-users",
        "transfers",
        "count",
        "uniform",
        "log-normal",
        "pareto",
        "choice",
        "320 KiB",
        "oneOf",
    ] {
        assert!(schema.contains(word), "{word} in {schema}");
    }
}

const ALL: [&str; 9] = [
    "kind = \"bulk\"\nsize = \"5 MB\"\nport = 80",
    WEB,
    "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", count = 2, pause = \"5 s\" }, { size = \"1 MB\" }]",
    "kind = \"audio\"\nlength = { uniform = [\"10 s\", \"50 s\"] }",
    "kind = \"video\"\nlength = \"20 s\"\npause = \"1 min\"",
    "kind = \"page\"\npause = { exponential = \"30 s\" }\nobjects = { log-normal = { median = 10.0, sigma = 0.5 } }\nobject = \"20 kB\"\ndocument = \"18 kB\"",
    "kind = \"perf\"\nrequest = \"300 B\"",
    "kind = \"tor-users\"\nflow-interval = \"10 s\"",
    "kind = \"perf\"\npause-from = \"end\"\npause = \"5 min\"\nsizes = [{ size = \"1 MB\", weight = 1.0, timeout = \"1 min\" }]",
];

/// Bytes that the ends of a flow's streams send in all.
fn totals(flow: Flow) -> [f64; 2] {
    let mut totals = [0.0; 2];
    for plan in flow {
        let [up, down] = match plan.exchange {
            Exchange::Download { request, size, .. } => [request, size],
            Exchange::Script(script) => script.totals().unwrap(),
        };
        totals[0] += up.get() as f64;
        totals[1] += down.get() as f64;
    }
    totals
}

/// Within five standard errors, which come from the sample itself.
#[test]
fn flows_are_in_the_mean_what_the_estimate_says() {
    for text in ALL {
        let load = load(text);
        let flows: Vec<Flow> = (0..3000).map_while(|k| load.flow(stream("client1"), k)).collect();
        let n = flows.len() as f64;
        let pauses: Vec<f64> = flows.iter().map(|flow| flow.pause.as_secs_f64()).collect();
        let sums: Vec<[f64; 2]> = flows.into_iter().map(totals).collect();
        let mean = load.mean_flow();
        let check = |what: &str, values: Vec<f64>, expected: f64| {
            let average = values.iter().sum::<f64>() / n;
            let deviation = (values.iter().map(|x| (x - average).powi(2)).sum::<f64>() / n).sqrt();
            let error = 5.0 * deviation / n.sqrt() + 1e-6 + expected * 1e-9;
            assert!((average - expected).abs() <= error, "{text}: {what} {average} against {expected}");
        };
        check("pause", pauses, mean.pause);
        check("to server", sums.iter().map(|sum| sum[0]).collect(), mean.to_server);
        check("to client", sums.iter().map(|sum| sum[1]).collect(), mean.to_client);
    }
}

proptest! {
    /// So do flows of every kind.
    #[test]
    fn a_flow_is_a_pure_function(which in 0..ALL.len(), ordinals in prop::collection::vec(0_u64..100, 1..5)) {
        let load = load(ALL[which]);
        let first: Vec<String> = ordinals.iter().map(|k| format!("{:?}", load.flow(stream("client1"), *k).map(totals))).collect();
        for (k, first) in ordinals.iter().zip(first).rev() {
            prop_assert_eq!(format!("{:?}", load.flow(stream("client1"), *k).map(totals)), first);
        }
    }

    /// A transfer depends on its name alone, not on which others were asked for before.
    #[test]
    fn a_transfer_is_a_pure_function(ordinals in prop::collection::vec(0_u64..100, 1..20)) {
        let web = load(WEB);
        let forward: Vec<_> = (0..100).map(|k| web.transfer(stream("client1"), k)).collect();
        for k in ordinals {
            prop_assert_eq!(web.transfer(stream("client1"), k), forward[k as usize]);
        }
    }
}

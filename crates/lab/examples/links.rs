//! Writes `docs/results/links-in-simulation.md` and its chart: the links that simulations share beside what is expected of the same networks.
//!
//!     cargo run --release -p onionlab-lab --example links -- CONSENSUS docs/results [SEEDS]
//!
//! CONSENSUS is any consensus document; the page in the repository was made with that of 2021-07-20, 00:00.

#[path = "../tests/shared/mod.rs"]
mod shared;

use shared::{Case, Share, share};
use std::fmt::Write as _;
use std::path::Path;

/// Scale of the network, and clients.
const CASES: [(f64, u32); 4] = [(0.01, 100), (0.01, 400), (0.05, 500), (0.1, 1000)];
/// Draws of the expectation.
const DRAWS: u64 = 1000;

struct Row {
    scale: f64,
    relays: usize,
    circuits: u32,
    directed: bool,
    simulated: Share,
    expected: Share,
    formula: f64,
}

impl Row {
    /// The difference in standard errors.
    fn apart(&self) -> f64 {
        let error = (self.simulated.half_width().powi(2) + self.expected.half_width().powi(2)).sqrt() / 1.96;
        (self.simulated.mean - self.expected.mean) / error
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [document, folder, rest @ ..] = arguments.as_slice() else { panic!("give a consensus document and a folder") };
    let seeds: u64 = rest.first().map_or(40, |seeds| seeds.parse().expect("SEEDS is a number"));
    let mut rows = Vec::new();
    for (scale, clients) in CASES {
        let case = Case::new(Some(Path::new(document)), scale, clients);
        let samples = case.simulate(1..1 + seeds, 20);
        assert!(samples.iter().all(|sample| sample.circuits == clients), "every client has a circuit in use");
        for directed in [true, false] {
            let simulated = share(&samples, |sample| if directed { sample.directed } else { sample.undirected });
            let (expected, formula) = case.expected(directed, DRAWS);
            let row = Row { scale, relays: case.network.relays.len(), circuits: clients, directed, simulated, expected, formula };
            println!(
                "{scale} {clients} {directed}: {:.2} {:.2}, {:.2} standard errors",
                simulated.mean,
                expected.mean,
                row.apart()
            );
            rows.push(row);
        }
    }
    let folder = Path::new(folder);
    std::fs::write(folder.join("links-in-simulation.md"), page(&rows, seeds)).expect("the page can be written");
    std::fs::write(folder.join("links-in-simulation.svg"), chart(&rows)).expect("the chart can be written");
}

fn page(rows: &[Row], seeds: u64) -> String {
    let mut page = format!(
        "# Links in a simulation\n\n\
         A simulation counts in each sample how many links the circuits in use go over, and how many of these carry two circuits or more (columns\n\
         `links` and `shared_links` of the table `network`, and by direction and class). `onionlab shared-links` says without a simulation how many\n\
         to expect. Here both look at the same networks: parts of the consensus of July 20, 2021, each client with one circuit in use, {seeds} seeds,\n\
         that is {seeds} independent choices of guards and paths. The expectation is the mean of {DRAWS} draws under tor's rules about the relays of one\n\
         circuit; beside it the closed form, which knows no such rules. Intervals are 95 %.\n\n\
         This page is written by `crates/lab/examples/links.rs`.\n\n\
         ![Share of shared links, simulated and expected](links-in-simulation.svg)\n\n\
         | network | relays | circuits in use | links | shared in the simulation, % | expected, % | closed form, % | apart, standard errors |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for row in rows {
        let kind = if row.directed { "directed" } else { "undirected" };
        let (simulated, expected) = (row.simulated, row.expected);
        writeln!(
            page,
            "| {} % | {} | {} | {kind} | {:.2} ± {:.2} | {:.2} ± {:.2} | {:.2} | {:+.1} |",
            100.0 * row.scale,
            row.relays,
            row.circuits,
            simulated.mean,
            simulated.half_width(),
            expected.mean,
            expected.half_width(),
            row.formula,
            row.apart()
        )
        .expect("a string takes everything");
    }
    let inside = rows.iter().filter(|row| row.apart().abs() < 1.96).count();
    write!(
        page,
        "\nOf the {} differences {inside} are below 1.96 standard errors; of honest counts 95 % are (directed and undirected links of one row of\n\
         simulations are counted on the same circuits and so stand or fall together).\n\n\
         Both count circuits with an open stream, and pairs of relays on their paths, the way from the client to its guard left aside. The paper's\n\
         log counts circuits of which a cell passed from the client on within a second, and the same pairs. A test with the built-in network repeats the comparison on every change (`crates/lab/tests/links.rs`).\n",
        rows.len()
    )
    .expect("a string takes everything");
    page
}

/// Simulated against expected: on the diagonal both are the same.
fn chart(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.simulated.mean.max(row.expected.mean)).fold(0.0, f64::max) * 1.1;
    let place = |percent: f64| 60.0 + 400.0 * percent / most;
    let (x, y) = (place, |percent: f64| 480.0 - (place(percent) - 60.0));
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 500 540\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"500\" height=\"540\" fill=\"white\"/>\n",
    );
    let mut line = |text: String| {
        svg.push_str(&text);
        svg.push('\n');
    };
    line(format!("<path d=\"M60 80V480H460M60 480L{:.1} {:.1}\" fill=\"none\" stroke=\"#888\"/>", x(most), y(most)));
    let step = if most > 40.0 { 20.0 } else { 10.0 };
    for tick in (0..).map(|tick| f64::from(tick) * step).take_while(|tick| *tick <= most) {
        line(format!("<text x=\"{:.1}\" y=\"498\" text-anchor=\"middle\">{tick}</text>", x(tick)));
        line(format!("<text x=\"52\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", y(tick) + 4.0));
    }
    for row in rows {
        let (from, to) = (row.simulated.mean - row.simulated.half_width(), row.simulated.mean + row.simulated.half_width());
        let (colour, at) = (if row.directed { "#1b6ca8" } else { "#d1495b" }, x(row.expected.mean));
        line(format!("<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>", y(from), y(to)));
        line(format!("<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>", y(row.simulated.mean)));
    }
    for (label, colour, at) in [("directed links", "#1b6ca8", 40), ("undirected links", "#d1495b", 60)] {
        line(format!("<circle cx=\"70\" cy=\"{}\" r=\"4\" fill=\"{colour}\"/><text x=\"82\" y=\"{at}\">{label}</text>", at - 4));
    }
    line("<text x=\"260\" y=\"525\" text-anchor=\"middle\">shared links expected, %</text>".to_owned());
    line(
        "<text x=\"18\" y=\"280\" text-anchor=\"middle\" transform=\"rotate(-90 18 280)\">shared links simulated, %</text>"
            .to_owned(),
    );
    svg.push_str("</svg>\n");
    svg
}

//! The controller of one relay: measured queues and the neighbours' messages in, rates and messages out, once in every step.
//!
//! It knows no clock and no network. Circuits come and go between steps. What neighbours say is not believed beyond what is possible: a message that makes no sense is refused and counted,
//! and the last one that made sense goes on getting older; rates and queues beyond the relay's link count as the link's. So whatever arrives, the plan keeps the relay's limits,
//! and the next message that makes sense counts again.

use crate::fast::FastSolver;
use crate::parameters::{Form, ParameterError, Parameters};
use crate::problem::{COMMITTED, CircuitInput, Problem};
use crate::solution::{Solution, Status};
use crate::trajectory::{FROM_SINK, FROM_SOURCE, Received, SinkMessage, SourceMessage, makes_sense};
use crate::trusted::solve_trusted;
use thiserror::Error;

/// The share of a link's rate that the public program plans with: TCP and IP need some.
pub const PLANNED_SHARE: f64 = 0.85;

/// A first relay knows no more of what its server has than this many seconds of its link's rate.
const SERVER_SECONDS: f64 = 60.0;

/// What a circuit's data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Another relay, which sends [`SourceMessage`]s.
    Relay,
    /// A server: the relay is the circuit's first in the direction of the data.
    Server,
}

/// Where a circuit's data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sink {
    /// Another relay, which sends [`SinkMessage`]s.
    Relay,
    /// The client, which takes what comes: the relay is the circuit's last.
    Client,
}

/// A circuit at one controller: a dense number, given out again after the circuit has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitSlot(pub u32);

/// What a controller does when the fast solver does not reach the optimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fallback {
    /// Asks the trusted solver, and where that fails too, keeps the old plan.
    #[default]
    Trusted,
    /// Keeps the old plan, a step on, cut to what the limits are now.
    OldPlan,
}

/// Where the plan of a step came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The fast solver.
    Solved,
    /// The trusted solver.
    Trusted,
    /// The step before: no solver found the optimum.
    OldPlan,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Iterations of the fast solver.
    pub iterations: u64,
    /// Steps whose plan is the trusted solver's.
    pub trusted: u64,
    /// Steps that went on with the plan of the step before.
    pub old_plans: u64,
    /// Steps in which the sources had committed more than the relay can take in, so that the commitments were scaled down.
    pub commitments_scaled: u64,
    /// Messages that were refused: wrong length, not numbers, or negative.
    pub refused_messages: u64,
}

/// The plan of a circuit: rates for the next step, and what the neighbours are told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan<'a> {
    /// Rate at which the relay sends in the next step, packets a second.
    pub rate_out: f64,
    /// Rate at which the relay takes in; a first relay reads from its server at most so fast.
    pub rate_in: f64,
    /// For the successor.
    pub to_sink: SourceMessage<'a>,
    /// For the predecessor.
    pub to_source: SinkMessage<'a>,
}

/// What cannot be asked of a controller.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ControllerError {
    /// A parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A link without a rate.
    #[error("the link's rate is {rate} packets/s, which must be above 0 and at most 10^15")]
    Rate {
        /// The rate.
        rate: f64,
    },
    /// A share beyond the whole.
    #[error("the planned share of the link is {share}: it must be above 0 and at most 1")]
    Share {
        /// The share.
        share: f64,
    },
}

#[derive(Debug, Clone)]
struct Circuit {
    source: Source,
    sink: Sink,
    queue: f64,
    /// Packets that the server still has; infinite for a source without end.
    server: f64,
    rate: Received,
    source_queue: Received,
    virtual_rate: Received,
    limit: Received,
    /// Steps that a source which is a relay has decided before it hears of the plan.
    committed: usize,
    /// Place in the problem of the last step, if it was there.
    place: Option<usize>,
}

/// No link is as fast: sums over a minute of it are still numbers.
const RATE_MAX: f64 = 1e15;

/// The controller of one relay.
#[derive(Debug, Clone)]
pub struct Controller {
    parameters: Parameters,
    link_rate: f64,
    fallback: Fallback,
    solver: FastSolver,
    problem: Problem,
    plan: Solution,
    previous: Solution,
    circuits: Vec<Option<Circuit>>,
    counts: Counts,
    changed: bool,
    rows: [Vec<f64>; 4],
}

impl Controller {
    /// A controller of a relay whose link carries `link_rate` packets a second each way, of which it plans with `planned_share` ([`PLANNED_SHARE`]).
    ///
    /// # Errors
    ///
    /// A parameter, the rate or the share is out of its range.
    pub fn new(parameters: Parameters, link_rate: f64, planned_share: f64) -> Result<Self, ControllerError> {
        if !(link_rate > 0.0 && link_rate <= RATE_MAX) {
            return Err(ControllerError::Rate { rate: link_rate });
        }
        if !(planned_share > 0.0 && planned_share <= 1.0) {
            return Err(ControllerError::Share { share: planned_share });
        }
        let solver = FastSolver::new(parameters)?;
        let capacity = link_rate * planned_share;
        let problem = Problem::new(parameters.horizon, capacity, capacity).expect("a positive, finite capacity");
        Ok(Self {
            parameters,
            link_rate,
            fallback: Fallback::default(),
            solver,
            problem,
            plan: Solution::default(),
            previous: Solution::default(),
            circuits: Vec::new(),
            counts: Counts::default(),
            changed: true,
            rows: std::array::from_fn(|_| vec![0.0; parameters.horizon]),
        })
    }

    /// Sets what is done when the fast solver does not reach the optimum.
    pub fn with_fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Allows the fast solver only so many iterations from each start, for [`crate::ITERATIONS_MAX`]; for real time, and for tests of what happens then.
    pub fn with_iterations_max(mut self, iterations: u32) -> Self {
        self.solver.set_iterations_max(iterations);
        self
    }

    /// A circuit comes.
    pub fn attach(&mut self, source: Source, sink: Sink) -> CircuitSlot {
        let circuit = Circuit {
            source,
            sink,
            queue: 0.0,
            server: 0.0,
            rate: Received::default(),
            source_queue: Received::default(),
            virtual_rate: Received::default(),
            limit: Received::default(),
            committed: COMMITTED.min(self.parameters.horizon - 1),
            place: None,
        };
        self.changed = true;
        let slot = self.circuits.iter().position(Option::is_none).unwrap_or(self.circuits.len());
        if slot == self.circuits.len() {
            self.circuits.push(Some(circuit));
        } else {
            self.circuits[slot] = Some(circuit);
        }
        CircuitSlot(slot as u32)
    }

    /// A circuit leaves. Nothing happens if it is not here.
    pub fn detach(&mut self, slot: CircuitSlot) {
        if let Some(circuit) = self.circuits.get_mut(slot.0 as usize) {
            self.changed |= circuit.take().is_some();
        }
    }

    /// The queue of a circuit as measured, in packets; what is no queue counts as empty.
    pub fn measured_queue(&mut self, slot: CircuitSlot, queue: f64) {
        let most = self.most_queue();
        if let Some(circuit) = self.circuit(slot) {
            circuit.queue = if queue > 0.0 { queue.min(most) } else { 0.0 };
        }
    }

    /// What a first relay's server still has to send, in packets: infinite for a source without end, 0 before it begins.
    pub fn server_has(&mut self, slot: CircuitSlot, packets: f64) {
        if let Some(circuit) = self.circuit(slot) {
            circuit.server = if packets > 0.0 { packets } else { 0.0 };
        }
    }

    /// A message of the predecessor that was sent at the same instant as the last step, as all do that are in step and one step's latency apart.
    pub fn heard_source(&mut self, slot: CircuitSlot, message: &SourceMessage<'_>) {
        self.heard_source_shifted(slot, message, FROM_SOURCE);
    }

    /// The same for a message of another age: at the next step its trajectories are `shift` steps old ([`FROM_SOURCE`]).
    pub fn heard_source_shifted(&mut self, slot: CircuitSlot, message: &SourceMessage<'_>, shift: f64) {
        let (most_rate, most_queue, parameters) = (self.link_rate, self.most_queue(), self.parameters);
        let virtual_rate = match parameters.form {
            Form::Conference => message.virtual_rate.is_empty(),
            Form::Journal => makes_sense(message.virtual_rate, &parameters),
        };
        let sense = shift.is_finite() && makes_sense(message.rate, &parameters) && makes_sense(message.queue, &parameters);
        if !(sense && virtual_rate) {
            self.counts.refused_messages += 1;
        } else if let Some(circuit) = self.circuit(slot) {
            circuit.rate.set(message.rate, shift, most_rate);
            circuit.source_queue.set(message.queue, shift, most_queue);
            circuit.virtual_rate.set(message.virtual_rate, shift, most_rate);
        }
    }

    /// A message of the successor that was sent at the same instant as the last step.
    pub fn heard_sink(&mut self, slot: CircuitSlot, message: &SinkMessage<'_>) {
        self.heard_sink_shifted(slot, message, FROM_SINK);
    }

    /// The same for a message of another age ([`FROM_SINK`]).
    pub fn heard_sink_shifted(&mut self, slot: CircuitSlot, message: &SinkMessage<'_>, shift: f64) {
        let (most, parameters) = (self.link_rate, self.parameters);
        if !(shift.is_finite() && makes_sense(message.rate, &parameters)) {
            self.counts.refused_messages += 1;
        } else if let Some(circuit) = self.circuit(slot) {
            circuit.limit.set(message.rate, shift, most);
        }
    }

    /// The predecessor has told at which step of this relay's intake trajectory it looked when it last heard one: so many steps, to the nearest, it has decided before it hears of a plan (row 10).
    /// Until this is said it is [`COMMITTED`], as where messages are prompt; and it is never all of them, since beyond the end of a trajectory the source sees its last value. With fewer steps the relay would plan to take at once what its source may only send later, and with more it would never
    /// ask for more than what was announced: either way what is left at the source would stay there.
    pub fn source_looked(&mut self, slot: CircuitSlot, shift: f64) {
        let most = (self.parameters.horizon - 1) as f64;
        if shift.is_nan() {
            self.counts.refused_messages += 1;
        } else if let Some(circuit) = self.circuit(slot) {
            circuit.committed = shift.round().clamp(0.0, most) as usize;
        }
    }

    /// Makes the plan of the next step from what was measured and heard. Then everything that was heard is a step older.
    pub fn step(&mut self) -> Outcome {
        std::mem::swap(&mut self.plan, &mut self.previous);
        self.ask();
        let warm = !self.changed;
        self.changed = false;
        let goes = "the problem was made for these parameters";
        if self.problem.is_idle() {
            // No need to ask a solver, which would begin the next problem from here.
            self.plan.reset(self.problem.circuits(), &self.parameters);
            self.plan.conclude(&self.parameters, &self.problem);
            self.changed = true;
        } else {
            let solved = if warm {
                self.solver.solve_warm(&self.problem, &mut self.plan)
            } else {
                self.solver.solve(&self.problem, &mut self.plan)
            };
            solved.expect(goes);
        }
        self.counts.iterations += u64::from(self.plan.iterations);
        let mut outcome = Outcome::Solved;
        if self.plan.status != Status::Solved {
            outcome = Outcome::OldPlan;
            if self.fallback == Fallback::Trusted {
                self.plan = solve_trusted(&self.parameters, &self.problem).expect(goes);
                if self.plan.status == Status::Solved {
                    outcome = Outcome::Trusted;
                }
            }
        }
        if outcome == Outcome::OldPlan {
            self.keep_old_plan();
        }
        self.counts.steps += 1;
        self.counts.trusted += u64::from(outcome == Outcome::Trusted);
        self.counts.old_plans += u64::from(outcome == Outcome::OldPlan);
        self.counts.commitments_scaled += u64::from(self.plan.commitments_scaled);
        for (place, circuit) in self.circuits.iter_mut().flatten().enumerate() {
            circuit.place = Some(place);
            for heard in [&mut circuit.rate, &mut circuit.source_queue, &mut circuit.virtual_rate, &mut circuit.limit] {
                heard.age();
            }
        }
        outcome
    }

    /// The plan of a circuit; none if it came after the last step or is not here.
    pub fn plan(&self, slot: CircuitSlot) -> Option<Plan<'_>> {
        let place = self.circuits.get(slot.0 as usize)?.as_ref()?.place?;
        let steps = self.parameters.horizon;
        let at = place * steps..(place + 1) * steps;
        let queue = place * (steps + 1) + 1;
        let rate_out = &self.plan.rate_out[at.clone()];
        let rate_in = &self.plan.rate_in[at.clone()];
        let virtual_rate = self.plan.virtual_rate_out.get(at).unwrap_or(&[]);
        Some(Plan {
            rate_out: rate_out[0],
            rate_in: rate_in[0],
            to_sink: SourceMessage { rate: rate_out, queue: &self.plan.queue[queue..queue + steps], virtual_rate },
            to_source: SinkMessage { rate: rate_in },
        })
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The problem of the last step, for whoever wants to look at it.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The solution of the last step, circuits in the order of their slots.
    pub fn solution(&self) -> &Solution {
        &self.plan
    }

    fn circuit(&mut self, slot: CircuitSlot) -> Option<&mut Circuit> {
        self.circuits.get_mut(slot.0 as usize)?.as_mut()
    }

    /// No queue is longer than what the link carries in so long a time.
    fn most_queue(&self) -> f64 {
        SERVER_SECONDS * self.link_rate
    }

    /// Writes the problem.
    fn ask(&mut self) {
        let most_queue = self.most_queue();
        let Self { parameters, link_rate, problem, previous, circuits, rows, .. } = self;
        let [rate, queue, virtual_rate, limit] = rows;
        let steps = parameters.horizon;
        problem.clear();
        for circuit in circuits.iter().flatten() {
            let journal = parameters.form == Form::Journal;
            if circuit.source == Source::Server {
                // Its own intake as planned before stands for the server's rate, not shifted, until the server has nothing left.
                let before = circuit.place.and_then(|place| previous.rate_in.get(place * steps..(place + 1) * steps));
                let mut left = circuit.server;
                for k in 0..steps {
                    queue[k] = left.min(most_queue);
                    // Less than a packet is a packet, but for what is rounding.
                    if (1.0 / 512.0..=1.0).contains(&queue[k]) {
                        queue[k] = 1.0;
                    }
                    rate[k] = before.map_or(0.0, |before| before[k]).min(left / parameters.step_seconds);
                    left -= parameters.step_seconds * rate[k];
                    left = left.max(0.0);
                }
                virtual_rate.fill(f64::INFINITY);
            } else {
                circuit.rate.resample(rate);
                circuit.source_queue.resample(queue);
                circuit.virtual_rate.resample(virtual_rate);
                // What the source could have sent since it told this, and did not, it still can.
                virtual_rate[0] += (circuit.virtual_rate.passed() - circuit.rate.passed()).max(0.0);
            }
            if circuit.sink == Sink::Client || circuit.limit.is_empty() {
                limit.fill(*link_rate);
            } else {
                circuit.limit.resample(limit);
            }
            let input = CircuitInput {
                queue: circuit.queue,
                committed: if circuit.source == Source::Relay { circuit.committed } else { 0 },
                source_rate: rate,
                source_queue: queue,
                source_virtual_rate: if journal { virtual_rate } else { &[] },
                limit,
            };
            problem.push(&input).expect("what was heard was checked");
        }
    }

    /// The plan of the step before, a step on. Rates stay within what the sinks take, what is there and what that plan has coming, and the capacities.
    fn keep_old_plan(&mut self) {
        let Self { parameters, problem, plan, previous, circuits, .. } = self;
        let (steps, h) = (parameters.horizon, parameters.step_seconds);
        let scaled = plan.commitments_scaled;
        plan.reset(problem.circuits(), parameters);
        (plan.status, plan.commitments_scaled) = (Status::Failed, scaled);
        for (p, circuit) in circuits.iter().flatten().enumerate() {
            let Some(old) = circuit.place else { continue };
            for k in 0..steps {
                let (from, to) = (old * steps + (k + 1).min(steps - 1), p * steps + k);
                plan.rate_in[to] = previous.rate_in[from];
                plan.rate_out[to] = previous.rate_out[from].min(problem.limit[to]);
                if parameters.form == Form::Journal {
                    plan.virtual_rate_out[to] = previous.virtual_rate_out[from];
                }
            }
        }
        // Others may have come: all shrink alike where the capacity is not enough.
        for k in 0..steps {
            let capacities = [problem.capacity_in, problem.capacity_out, problem.capacity_out];
            for (rates, capacity) in
                [&mut plan.rate_in, &mut plan.rate_out, &mut plan.virtual_rate_out].into_iter().zip(capacities)
            {
                let sum: f64 = rates.iter().skip(k).step_by(steps).sum();
                if sum > capacity {
                    rates.iter_mut().skip(k).step_by(steps).for_each(|rate| *rate *= capacity / sum);
                }
            }
        }
        for p in 0..problem.circuits() {
            let mut queue = problem.queue[p];
            for at in p * steps..(p + 1) * steps {
                plan.rate_out[at] = plan.rate_out[at].min(queue / h + plan.rate_in[at]);
                queue = (queue + h * (plan.rate_in[at] - plan.rate_out[at])).max(0.0);
            }
        }
        plan.conclude(parameters, problem);
    }
}

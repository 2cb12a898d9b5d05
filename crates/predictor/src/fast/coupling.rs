//! The capacity sums, which alone couple the circuits: one row for each step and rate, and the dense system of that size.

use super::lanes::Lanes;
use super::pack::NOISE;

/// Rows "the sum of the circuits' rates is at most the capacity", by step and rate, with slack and dual.
#[derive(Debug, Clone, Default)]
pub struct Coupling {
    pub bound: Vec<f64>,
    /// Whether a rate in the row can move.
    pub on: Vec<bool>,
    pub slack: Vec<f64>,
    pub dual: Vec<f64>,
    pub kept_dual: Vec<f64>,
    /// Sums of the rates, and of their moves.
    pub total: Vec<f64>,
    pub move_total: Vec<f64>,
    pub primal: Vec<f64>,
    pub target: Vec<f64>,
    pub move_slack: Vec<f64>,
    pub move_dual: Vec<f64>,
    /// The Cholesky factor, upper triangle by rows.
    factor: Vec<f64>,
}

impl Coupling {
    /// Makes room for so many rows.
    pub fn resize(&mut self, rows: usize) {
        for values in [
            &mut self.bound,
            &mut self.slack,
            &mut self.dual,
            &mut self.kept_dual,
            &mut self.total,
            &mut self.move_total,
            &mut self.primal,
            &mut self.target,
            &mut self.move_slack,
            &mut self.move_dual,
        ] {
            values.resize(rows, 0.0);
        }
        self.on.resize(rows, false);
        self.factor.resize(rows * rows, 0.0);
    }

    /// Residuals from the totals; returns the gap's part and the largest residual.
    pub fn measure(&mut self) -> (f64, f64) {
        let (mut gap, mut largest) = (0.0, 0.0_f64);
        for row in 0..self.bound.len() {
            if self.on[row] {
                let missed = self.total[row] + self.slack[row] - self.bound[row];
                let noise = NOISE * (self.total[row].abs() + self.bound[row]);
                self.primal[row] = if missed.abs() <= noise { 0.0 } else { missed };
                gap += self.slack[row] * self.dual[row];
                largest = largest.max(self.primal[row].abs());
            } else {
                self.primal[row] = 0.0;
            }
        }
        (gap, largest)
    }

    /// Factors the sum of the circuits' covariances plus slack over dual. False if that is not positive definite, as only broken arithmetic makes it.
    pub fn factor<const M: usize>(&mut self, covariance: &[[[Lanes; M]; M]], steps: usize) -> bool {
        let rows = steps * M;
        for j in 0..steps {
            for k in 0..=j {
                let block = &covariance[j * steps + k];
                for a in 0..M {
                    for b in 0..M {
                        // Row of the earlier step: the upper triangle.
                        self.factor[(k * M + b) * rows + j * M + a] = block[a][b].sum();
                    }
                }
            }
        }
        for row in 0..rows {
            if self.on[row] {
                self.factor[row * rows + row] += self.slack[row] / self.dual[row];
            } else {
                // Nothing in it moves; a one decouples it.
                self.factor[row * rows + row] = 1.0;
            }
        }
        for pivot in 0..rows {
            let (above, below) = self.factor.split_at_mut((pivot + 1) * rows);
            let own = &mut above[pivot * rows + pivot..];
            if !(own[0] > 0.0 && own[0].is_finite()) {
                return false;
            }
            let scale = 1.0 / own[0].sqrt();
            for value in own.iter_mut() {
                *value *= scale;
            }
            for (offset, row) in below.chunks_exact_mut(rows).enumerate() {
                let share = own[offset + 1];
                let target = &mut row[pivot + 1 + offset..];
                for (target, own) in target.iter_mut().zip(&own[offset + 1..]) {
                    *target -= share * own;
                }
            }
        }
        true
    }

    /// The duals' direction, given the totals of the rates' direction without it.
    pub fn solve(&mut self) {
        let rows = self.bound.len();
        let solution = &mut self.move_dual;
        for row in 0..rows {
            let aim = self.move_total[row] + self.primal[row] - self.target[row] / self.dual[row];
            solution[row] = if self.on[row] { aim } else { 0.0 };
        }
        for row in 0..rows {
            let factor = &self.factor[row * rows..(row + 1) * rows];
            let value = solution[row] / factor[row];
            solution[row] = value;
            for later in row + 1..rows {
                solution[later] -= factor[later] * value;
            }
        }
        for row in (0..rows).rev() {
            let factor = &self.factor[row * rows..(row + 1) * rows];
            let known: f64 = (row + 1..rows).map(|later| factor[later] * solution[later]).sum();
            solution[row] = (solution[row] - known) / factor[row];
        }
    }

    /// The slacks' direction; the largest share of a slack or dual it takes away, and the products of their moves.
    pub fn finish(&mut self) -> (f64, f64) {
        let (mut shrink, mut products) = (0.0_f64, 0.0);
        for row in 0..self.bound.len() {
            if self.on[row] {
                // From the dual's: the totals' sum has lost digits where the row binds.
                let slack = -(self.slack[row] * self.move_dual[row] + self.target[row]) / self.dual[row];
                self.move_slack[row] = slack;
                shrink = shrink.max(-slack / self.slack[row]).max(-self.move_dual[row] / self.dual[row]);
                products += slack * self.move_dual[row];
            }
        }
        (shrink, products)
    }

    /// Targets of the predictor.
    pub fn aim_at_zero(&mut self) {
        for row in 0..self.bound.len() {
            self.target[row] = self.slack[row] * self.dual[row];
        }
    }

    /// Targets of the corrector.
    pub fn aim_at_centre(&mut self, centre: f64) {
        for row in 0..self.bound.len() {
            self.target[row] += self.move_slack[row] * self.move_dual[row] - centre;
        }
    }

    /// Goes along the direction.
    pub fn go(&mut self, length: f64) {
        for row in 0..self.bound.len() {
            if self.on[row] {
                self.slack[row] += length * self.move_slack[row];
                self.dual[row] += length * self.move_dual[row];
            }
        }
    }
}

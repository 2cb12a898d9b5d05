//! The quadratic forms that pass from step to step, as meshes of conductances, and the elimination of one step.
//!
//! Within a circuit, the cost of what is still to come is a quadratic form in the cumulative intake X, the cumulative outgoing amount Y and, in the journal problem, the
//! cumulative virtual one Z. Every constraint weighs one of them or a difference of two (a queue is X - Y), so the form is that of an
//! electrical mesh: a conductance to ground at each node and one between each two nodes. Near the optimum some conductances are 1e13 times others, and a matrix
//! that holds their sums would have lost the small ones. Kept apart, they are eliminated almost without subtractions, in full accuracy (determinants are sums over
//! spanning trees); only the term between Y and Z that the deviation's weight adds needs some, and it is moderate.

use super::lanes::Lanes;

/// Conductances of nodes X, Y and, with three nodes, Z: `ground` of each to ground, `edge` of XY, XZ and YZ (with two nodes only XY).
#[derive(Debug, Clone, Copy)]
pub struct Mesh<const M: usize> {
    pub ground: [Lanes; M],
    pub edge: [Lanes; 3],
}

/// One step eliminated. With P the mesh after the step, R the cost of its rates and s the state before it, the best rates are -K s plus a constant, and the
/// state after them A s plus a constant.
///
/// A state is X and the queues X - Y and X - Z, not X, Y and Z: a queue that its constraint holds moves so much less than either sum that their difference would be rounding.
#[derive(Debug, Clone, Copy)]
pub struct Eliminated<const M: usize> {
    /// The inverse of R + P: the covariance of the rates given the state.
    pub inverse: [[Lanes; M]; M],
    /// That of the rates (rows) with the state after them (columns).
    pub cross: [[Lanes; M]; M],
    /// That of the state after them.
    pub noise: [[Lanes; M]; M],
    /// K.
    pub gain: [[Lanes; M]; M],
    /// A.
    pub pass: [[Lanes; M]; M],
}

impl<const M: usize> Eliminated<M> {
    pub const ZERO: Self = {
        let zero = [[Lanes::ZERO; M]; M];
        Self { inverse: zero, cross: zero, noise: zero, gain: zero, pass: zero }
    };
}

/// Elimination of one step.
pub trait Eliminate<const M: usize>: Sized {
    /// Eliminates the rates of a step whose cost is `own` on each of them and `deviation` on the difference of y and z; the mesh left at the step before.
    fn eliminate(&self, own: &[Lanes; M], deviation: Lanes) -> (Eliminated<M>, Self);
}

impl Eliminate<2> for Mesh<2> {
    #[inline(always)]
    fn eliminate(&self, own: &[Lanes; 2], _: Lanes) -> (Eliminated<2>, Self) {
        let ([rx, ry], [gx, gy], w) = (*own, self.ground, self.edge[0]);
        let (mx, my) = (rx + gx, ry + gy);
        let scale = Lanes::ONE / (mx * my + w * (mx + my));
        let (xx, xy, yy) = ((my + w) * scale, w * scale, (mx + w) * scale);
        // xx - xy and yy - xy.
        let (x_y, y_x) = (my * scale, mx * scale);
        let (node_x, node_y) = (xx * gx + xy * gy, xy * gx + yy * gy);
        let (through_x, across) = (xx * rx, xy * ry);
        let held = (mx * (gy + w) + w * gy) * scale;
        let eliminated = Eliminated {
            inverse: [[xx, xy], [xy, yy]],
            cross: [[xx, x_y], [xy, -y_x]],
            noise: [[xx, x_y], [x_y, x_y + y_x]],
            gain: [[node_x, across], [node_y, -held]],
            pass: [[through_x + across, -across], [(rx * gy - ry * gx) * scale, y_x * ry]],
        };
        (eliminated, Self { ground: [rx * node_x, ry * node_y], edge: [rx * across, Lanes::ZERO, Lanes::ZERO] })
    }
}

impl Eliminate<3> for Mesh<3> {
    #[inline(always)]
    fn eliminate(&self, own: &[Lanes; 3], deviation: Lanes) -> (Eliminated<3>, Self) {
        let ([rx, ry, rz], [gx, gy, gz], [xy, xz, edge_yz]) = (*own, self.ground, self.edge);
        let (mx, my, mz, yz) = (rx + gx, ry + gy, rz + gz, edge_yz + deviation);
        // Minors by the matrix-tree theorem, and the differences of two of them.
        let xx = (my + xy) * (mz + xz) + yz * (my + xy + mz + xz);
        let yy = (mx + xy) * (mz + yz) + xz * (mx + xy + mz + yz);
        let zz = (mx + xz) * (my + yz) + xy * (mx + xz + my + yz);
        let (ixy, ixz, iyz) = (xy * (mz + xz + yz) + xz * yz, xz * (my + xy + yz) + xy * yz, yz * (mx + xy + xz) + xy * xz);
        let scale = Lanes::ONE / (mx * xx + my * ixy + mz * ixz);
        // xx - xy and so on: the minor on the diagonal less one beside it.
        let (x_y, x_z) = ((my * (mz + xz + yz) + yz * mz) * scale, (mz * (my + xy + yz) + yz * my) * scale);
        let (y_x, y_z) = ((mx * (mz + yz + xz) + xz * mz) * scale, (mz * (mx + xy + xz) + xz * mx) * scale);
        let (z_x, z_y) = ((mx * (my + yz + xy) + xy * my) * scale, (my * (mx + xz + xy) + xy * mx) * scale);
        // xy - xz, xy - yz and xz - yz.
        let (of_x, of_y, of_z) = ((xy * mz - xz * my) * scale, (xy * mz - yz * mx) * scale, (xz * my - yz * mx) * scale);
        let (xx, yy, zz, ixy, ixz, iyz) = (xx * scale, yy * scale, zz * scale, ixy * scale, ixz * scale, iyz * scale);
        // M^-1 P on a potential of one everywhere, and M^-1 R where it is not on the diagonal of y or z.
        let node_x = xx * gx + ixy * gy + ixz * gz;
        let node_y = ixy * gx + yy * gy + iyz * gz;
        let node_z = ixz * gx + iyz * gy + zz * gz;
        let (a_xx, a_xy, a_xz) = (xx * rx, ixy * ry + deviation * of_x, ixz * rz - deviation * of_x);
        let (a_yz, a_zy) = (iyz * rz - deviation * y_z, iyz * ry - deviation * z_y);
        let k_yy = gy * yy + xy * y_x + edge_yz * y_z;
        let k_zz = gz * zz + xz * z_x + edge_yz * z_y;
        let (both_q, both_v) = (deviation * (y_x + of_z), deviation * (of_y + z_x));
        let eliminated = Eliminated {
            inverse: [[xx, ixy, ixz], [ixy, yy, iyz], [ixz, iyz, zz]],
            cross: [[xx, x_y, x_z], [ixy, -y_x, of_y], [ixz, of_z, -z_x]],
            noise: [[xx, x_y, x_z], [x_y, x_y + y_x, x_z - of_y], [x_z, x_z - of_y, x_z + z_x]],
            gain: [[node_x, a_xy, a_xz], [node_y, -k_yy, a_yz], [node_z, a_zy, -k_zz]],
            pass: [
                [a_xx + a_xy + a_xz, -a_xy, -a_xz],
                [y_x * gy - x_y * gx - of_z * gz, y_x * ry + both_q, -of_z * rz - both_q],
                [z_x * gz - x_z * gx - of_y * gy, -of_y * ry - both_v, z_x * rz + both_v],
            ],
        };
        let apart = deviation * (gx * of_x + gy * y_z - gz * z_y);
        let ground = [rx * node_x, ry * node_y + apart, rz * node_z - apart];
        (eliminated, Self { ground, edge: [rx * a_xy, rx * a_xz, ry * a_yz + deviation * (a_yz + k_zz)] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Matrix = Vec<Vec<f64>>;

    fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
        let entry = |row: &Vec<f64>, column: usize| row.iter().zip(b).map(|(a, b)| a * b[column]).sum();
        a.iter().map(|row| (0..b.len()).map(|column| entry(row, column)).collect()).collect()
    }

    /// The matrix of a mesh.
    fn matrix<const M: usize>(ground: [f64; M], edge: [f64; 3]) -> Matrix {
        let mut matrix = vec![vec![0.0; M]; M];
        for (node, ground) in ground.iter().enumerate() {
            matrix[node][node] = *ground;
        }
        for ((a, b), edge) in [(0, 1), (0, 2), (1, 2)].into_iter().zip(edge) {
            if b < M {
                matrix[a][a] += edge;
                matrix[b][b] += edge;
                matrix[a][b] -= edge;
                matrix[b][a] -= edge;
            }
        }
        matrix
    }

    fn transposed(a: &Matrix) -> Matrix {
        (0..a.len()).map(|column| a.iter().map(|row| row[column]).collect()).collect()
    }

    /// Every equation that defines an elimination, by plain matrices on numbers of one size.
    fn holds<const M: usize>(own: [f64; M], deviation: f64, ground: [f64; M], edge: [f64; 3]) -> bool
    where
        Mesh<M>: Eliminate<M>,
    {
        let mesh = Mesh { ground: ground.map(Lanes::all), edge: edge.map(Lanes::all) };
        let (found, left) = mesh.eliminate(&own.map(Lanes::all), Lanes::all(deviation));
        let plain = |lanes: &[[Lanes; M]; M]| lanes.iter().map(|row| row.iter().map(|l| l.0[1]).collect()).collect::<Matrix>();
        let own = matrix(own, [0.0, 0.0, if M == 3 { deviation } else { 0.0 }]);
        let after = matrix(ground, edge);
        let sum: Matrix = own.iter().zip(&after).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect();
        let inverse = plain(&found.inverse);
        // From X, Y, Z to X, X - Y, X - Z, which is its own inverse.
        let turn: Matrix = (0..M)
            .map(|row| (0..M).map(|column| if column == 0 { 1.0 } else { -f64::from(u8::from(row == column)) }).collect())
            .collect();
        let left = matrix(left.ground.map(|l| l.0[2]), left.edge.map(|l| l.0[2]));
        let cross = multiply(&inverse, &transposed(&turn));
        [
            (multiply(&sum, &inverse), matrix([1.0; M], [0.0; 3])),
            (plain(&found.cross), cross.clone()),
            (plain(&found.noise), multiply(&turn, &cross)),
            (plain(&found.gain), multiply(&multiply(&inverse, &after), &turn)),
            (plain(&found.pass), multiply(&turn, &multiply(&multiply(&inverse, &own), &turn))),
            (left, multiply(&own, &multiply(&inverse, &after))),
        ]
        .iter()
        .all(|(a, b)| a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-9))
    }

    proptest! {
        #[test]
        fn elimination_is_what_it_says(v in prop::collection::vec(0.1..3.0_f64, 10)) {
            prop_assert!(holds([v[0], v[1]], 0.0, [v[2], v[3]], [v[4], 0.0, 0.0]));
            prop_assert!(holds([v[0], v[1], v[2]], v[3], [v[4], v[5], v[6]], [v[7], v[8], v[9]]));
        }

        /// What a matrix would lose: a soft direction beside a constraint that is 1e16 times as stiff. X and Y tied together move as one node.
        #[test]
        fn soft_directions_survive_stiff_ones(rx in 0.1..3.0_f64, ry in 0.1..3.0_f64) {
            let tie = [Lanes::all(1e16), Lanes::ZERO, Lanes::ZERO];
            let mesh = Mesh { ground: [Lanes::ZERO; 2], edge: tie };
            let (found, _) = mesh.eliminate(&[Lanes::all(rx), Lanes::all(ry)], Lanes::ZERO);
            prop_assert!((found.inverse[0][0].0[0] * (rx + ry) - 1.0).abs() < 1e-12);
            let mesh = Mesh { ground: [Lanes::ZERO; 3], edge: tie };
            let (found, _) = mesh.eliminate(&[Lanes::all(rx), Lanes::all(ry), Lanes::ONE], Lanes::ZERO);
            prop_assert!((found.inverse[0][0].0[0] * (rx + ry) - 1.0).abs() < 1e-12);
        }
    }
}

//! Between the whole grid and the half one: means of 2x2x2 cells on the way in; on the way out
//! every cell moves by as much as its mean has moved, so that means are right and detail is kept.

/// Mean of the 2x2x2 cells of `whole` (`n` cells per axis) that each cell of `half` stands for.
pub fn halve(whole: &[f32], n: usize, half: &mut [f32]) {
    for (index, row) in half.chunks_exact_mut(n / 2).enumerate() {
        let rows = four_rows(index, n).map(|start| &whole[start..start + n]);
        for (x, mean) in row.iter_mut().enumerate() {
            *mean = mean_of_eight(rows.map(|row| [row[2 * x], row[2 * x + 1]]));
        }
    }
}

/// Moves the cells of `whole` so that their means become `half`; within +-`bound`.
pub fn unhalve(half: &[f32], n: usize, whole: &mut [f32], bound: f32) {
    for (index, row) in half.chunks_exact(n / 2).enumerate() {
        let starts = four_rows(index, n);
        for (x, wanted) in row.iter().enumerate() {
            let at = starts.map(|start| start + 2 * x);
            let shift = wanted - mean_of_eight(at.map(|i| [whole[i], whole[i + 1]]));
            for cell in at.into_iter().flat_map(|i| [i, i + 1]) {
                whole[cell] = (whole[cell] + shift).clamp(-bound, bound);
            }
        }
    }
}

/// Where the four rows of `n` cells begin that row `index` of the half grid stands for.
fn four_rows(index: usize, n: usize) -> [usize; 4] {
    let (z, y) = (index / (n / 2) * 2, index % (n / 2) * 2);
    [(z, y), (z, y + 1), (z + 1, y), (z + 1, y + 1)].map(|(z, y)| (z * n + y) * n)
}

fn mean_of_eight(pairs: [[f32; 2]; 4]) -> f32 {
    let [a, b, c, d] = pairs.map(|pair| pair[0] + pair[1]);
    0.125 * ((a + b) + (c + d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_cells_and_detail_survives_the_way_back() {
        let n = 8;
        let start: Vec<f32> = (0..n * n * n).map(|i| ((i * 7919) % 1000) as f32 / 2000.0).collect();
        let (mut whole, mut half) = (start.clone(), vec![0.0; 64]);
        halve(&whole, n, &mut half);
        let cells = [0, 1, n, n + 1, n * n, n * n + 1, n * n + n, n * n + n + 1];
        let first: f32 = cells.iter().map(|cell| start[*cell]).sum();
        assert!((half[0] - first / 8.0).abs() < 1e-6);
        half.iter_mut().for_each(|mean| *mean += 0.1);
        unhalve(&half, n, &mut whole, 0.95);
        assert!(whole.iter().zip(&start).all(|(a, b)| (a - b - 0.1).abs() < 1e-6));
        half.fill(5.0);
        unhalve(&half, n, &mut whole, 0.95);
        assert!(whole.iter().all(|u| *u <= 0.95), "the bound stands above the mean");
    }
}

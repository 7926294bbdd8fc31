//! Matrices over the field of 256 elements, and the matrices of codes.

use super::field::{inverse, product};

/// Matrix of rows with the same length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Matrix {
    pub(super) width: usize,
    pub(super) cells: Vec<u8>,
}

impl Matrix {
    pub(super) fn row(&self, row: usize) -> &[u8] {
        &self.cells[row * self.width..][..self.width]
    }

    /// Returns P rows of K coefficients in which every square submatrix is invertible, and whose
    /// first row and first column are all ones.
    ///
    /// It is Cauchy's matrix 1 / (x + y), with y from 0 to K - 1 and x from K to K + P - 1, all
    /// distinct. Its square submatrices are invertible, and multiplying rows and columns by
    /// non-zero numbers does not change that.
    pub(super) fn parity(k: usize, p: usize) -> Matrix {
        assert!(k > 0);
        assert!(k + p <= 256, "bytes have no more values");
        let sum = |i: usize, j: usize| (k + i) as u8 ^ j as u8;
        let ratio = |a: u8, b: u8| product(a, inverse(b));
        let cell =
            |i: usize, j: usize| product(ratio(sum(0, j), sum(i, j)), ratio(sum(i, 0), sum(0, 0)));
        let cells = (0..p).flat_map(|i| (0..k).map(move |j| cell(i, j)));
        Matrix {
            width: k,
            cells: cells.collect(),
        }
    }

    /// Returns the inverse matrix, if it exists, by Gauss–Jordan elimination.
    pub(super) fn inverted(&self) -> Option<Matrix> {
        let n = self.width;
        assert_eq!(self.cells.len(), n * n, "a square");
        let mut left = self.clone();
        let mut right = Matrix {
            width: n,
            cells: (0..n * n).map(|at| u8::from(at / n == at % n)).collect(),
        };
        for column in 0..n {
            let pivot = (column..n).find(|&row| left.row(row)[column] != 0)?;
            let factor = inverse(left.row(pivot)[column]);
            for matrix in [&mut left, &mut right] {
                matrix.swap(column, pivot);
                matrix.scale(column, factor);
            }
            for row in (0..n).filter(|&row| row != column) {
                let factor = left.row(row)[column];
                for matrix in [&mut left, &mut right] {
                    matrix.subtract(row, column, factor);
                }
            }
        }
        Some(right)
    }

    /// Returns the product of a row with this matrix.
    pub(super) fn factors_of(&self, row: &[u8]) -> Vec<u8> {
        let cell = |column: usize| {
            let terms = row.iter().enumerate();
            terms.fold(0, |sum, (at, &cell)| {
                sum ^ product(cell, self.row(at)[column])
            })
        };
        (0..self.width).map(cell).collect()
    }

    fn swap(&mut self, a: usize, b: usize) {
        for column in 0..self.width {
            self.cells
                .swap(a * self.width + column, b * self.width + column);
        }
    }

    fn scale(&mut self, row: usize, factor: u8) {
        for cell in &mut self.cells[row * self.width..][..self.width] {
            *cell = product(*cell, factor);
        }
    }

    fn subtract(&mut self, row: usize, other: usize, factor: u8) {
        for column in 0..self.width {
            let term = product(self.cells[other * self.width + column], factor);
            self.cells[row * self.width + column] ^= term;
        }
    }
}

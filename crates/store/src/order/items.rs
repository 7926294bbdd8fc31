//! Items of a node: arrays that grow and shrink in steps, split, and merge with a neighbour. The
//! count of bytes follows their capacity.

pub(super) fn capacity_bytes<T>(items: &Vec<T>) -> usize {
    items.capacity() * size_of::<T>()
}

/// Changes the items of a node and adds the change of their capacity to the count of bytes.
pub(super) fn accounted<T, R>(
    items: &mut Vec<T>,
    bytes: &mut usize,
    work: impl FnOnce(&mut Vec<T>) -> R,
) -> R {
    *bytes -= capacity_bytes(items);
    let result = work(items);
    *bytes += capacity_bytes(items);
    result
}

/// Inserts one item. If there are already `max`, splits the items and returns the right half. At
/// the right edge of the tree, the left part stays full.
pub(super) fn insert_or_split<T>(
    items: &mut Vec<T>,
    at: usize,
    item: T,
    (step, max): (usize, usize),
    is_right_edge: bool,
    bytes: &mut usize,
) -> Option<Vec<T>> {
    accounted(items, bytes, |items| {
        if items.len() < max {
            if items.len() == items.capacity() {
                items.reserve_exact(step);
            }
            items.insert(at, item);
            return None;
        }
        let middle = if is_right_edge && at == max {
            max
        } else {
            max / 2
        };
        let mut right = Vec::new();
        right.reserve_exact((max - middle) / step * step + step);
        right.extend(items.drain(middle..));
        if at > middle || middle == max {
            right.insert(at - middle, item);
            items.shrink_to(middle);
        } else {
            items.shrink_to(middle + step);
            items.insert(at, item);
        }
        Some(right)
    })
    .inspect(|right| *bytes += capacity_bytes(right))
}

/// Shrinks the capacity of the items if two steps of it are unused.
pub(super) fn tighten<T>(items: &mut Vec<T>, step: usize) {
    if items.len() + 2 * step <= items.capacity() {
        items.shrink_to(items.len() + step);
    }
}

/// Merges two neighbours into the left one. If they have too many items for one node, balances them
/// and returns the right one.
pub(super) fn join<T>(
    left: &mut Vec<T>,
    mut right: Vec<T>,
    (step, max): (usize, usize),
    bytes: &mut usize,
) -> Option<Vec<T>> {
    *bytes -= capacity_bytes(left) + capacity_bytes(&right);
    let total = left.len() + right.len();
    let half = total / 2;
    if total <= max {
        left.reserve_exact(total - left.len());
        left.append(&mut right);
    } else if left.len() < half {
        left.reserve_exact(half - left.len());
        left.extend(right.drain(..half - left.len()));
    } else {
        let surplus = left.drain(half..);
        right.reserve_exact(surplus.len());
        right.splice(0..0, surplus);
    }
    tighten(left, step);
    tighten(&mut right, step);
    let right = (!right.is_empty()).then_some(right);
    *bytes += capacity_bytes(left) + right.as_ref().map_or(0, capacity_bytes);
    right
}

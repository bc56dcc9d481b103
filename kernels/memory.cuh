/// The holographic memory: the tables that host and device share (src/memory/gpu/table.rs).
///
/// No padding, little-endian. A `Sheet` holds addresses only, null where not needed; the numbers are in the
/// `Task` that it points to.
#pragma once
#include "arithmetic.cuh"

/// A cosine and its row in one number; the better match has the larger key. 0: no match.
using Key = unsigned long long;

/// An operation.
struct Task {
  unsigned d;       // numbers in a row
  unsigned rows;    // of `a`
  unsigned unbind;  // 1: the factors are replaced by their involutions
  unsigned one_key; // 1: `b` is one row, used for all rows of `a`
  unsigned unit;    // 1: results are scaled to length 1
  unsigned wanted;  // best matches of a query, 1 to MOST_TOP
  unsigned unused[2];
};

/// The buffers of an operation.
struct Sheet {
  const Task* task;
  const float* a;       // [rows][d]: first factors, or rows to be summed, or a store
  const float* b;       // second factors; queries
  float* out;           // [rows][d], [d]
  const float2* turns;  // w(k, D) for k below 3 D / 4, D being the transform's length
  const float* weights; // [rows]; null: all 1
  float* leaves;        // [leaf][d]
  const float* inverse; // [rows]: 1 over the length of each row of a store
  Key* found;           // [query][block][wanted]
  Key* best;            // [query][wanted]
};

static_assert(sizeof(Task) == 32 && sizeof(Sheet) == 80, "agreed with the host");

/// The holographic memory: the tables that host and device share (src/memory/gpu/table.rs).
///
/// No padding, little-endian. A `Sheet` holds addresses only, what is not needed being null; numbers stand in
/// the `Task` that it points to.
#pragma once
#include "arithmetic.cuh"

/// A cosine and its row in one number: of two, the one that comes first is larger. 0: none.
using Key = unsigned long long;

/// What is to be done.
struct Task {
  unsigned d;       // numbers in a row
  unsigned rows;    // of `a`
  unsigned unbind;  // 1: the factors are taken as their involutions
  unsigned one_key; // 1: `b` is one row, for all
  unsigned unit;    // 1: results are scaled to length 1
  unsigned wanted;  // best matches of a query, 1 to MOST_TOP
  unsigned unused[2];
};

/// Where it is done.
struct Sheet {
  const Task* task;
  const float* a;       // [rows][d]: first factors, rows to be added up, a store
  const float* b;       // second factors; queries
  float* out;           // [rows][d], [d]
  const float2* turns;  // w(k, D) for k below 3 D / 4, D being the transform's length
  const float* weights; // [rows]; null: all 1
  float* leaves;        // [leaf][d]
  const float* inverse; // [rows]: 1 over the length of a store's row
  Key* found;           // [query][block][wanted]
  Key* best;            // [query][wanted]
};

static_assert(sizeof(Task) == 32 && sizeof(Sheet) == 80, "agreed with the host");

// Operators that say when they run: forwards each to another backend and records its phase. The
// numbers are the other backend's.
#pragma once

#include <memory>

#include "kernels/operator_bound.h"
#include "kernels/ops.h"
#include "kernels/span_recorder.h"

namespace headrace {

/// The recorder must outlive it. A product that runs while the recorder is in Phase::kSampling is
/// the head's. Of products and attention it also records the least time that `bound` allows.
std::unique_ptr<Ops> make_traced_ops(std::unique_ptr<Ops> ops, SpanRecorder& recorder,
                                     const MachineBound& bound = {});

}  // namespace headrace

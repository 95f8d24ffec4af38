// Operators that say when they run: forwards each to another backend and records its phase. The
// numbers are the other backend's.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "kernels/span_recorder.h"

namespace headrace {

/// The recorder must outlive it. A product that runs while the recorder is in Phase::kSampling is
/// the head's.
std::unique_ptr<Ops> make_traced_ops(std::unique_ptr<Ops> ops, SpanRecorder& recorder);

}  // namespace headrace

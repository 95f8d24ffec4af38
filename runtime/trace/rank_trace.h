// What one rank recorded of a job, as it goes to rank 0 at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/clock_alignment.h"
#include "kernels/span_recorder.h"
#include "partition/topology.h"

namespace headrace {

/// A rank's clock beside rank 0's, measured at two times. Where the two differ by more than both
/// may be wrong, the difference changes evenly between them; else the better one holds throughout.
struct ClockMap {
  std::int64_t first_ns = 0;  // on the rank's own clock: when `first` was measured
  std::int64_t last_ns = 0;
  ClockOffset first;
  ClockOffset last;

  std::int64_t to_root(std::int64_t own_ns) const;
};

struct RankTrace {
  int rank = 0;
  Coordinates at;
  std::string host;
  ClockMap clock;
  // The rank's own clock.
  std::int64_t begin_ns = 0;
  std::int64_t worked_ns = 0;
  std::int64_t end_ns = 0;
  PhaseTimes times{};   // from begin_ns to worked_ns
  PhaseTimes bounds{};  // what they take at least on this machine; 0 where that is not known
  std::int64_t num_dropped = 0;
  std::vector<Span> spans;  // by end
};

/// The recorder has stopped. Keeps its latest max_spans spans.
RankTrace take_trace(const SpanRecorder& recorder, std::size_t max_spans);

/// Little-endian bytes, for a gather.
std::string encode_trace(const RankTrace& trace);
/// Throws std::runtime_error naming what does not fit.
RankTrace decode_trace(const std::string& bytes);

}  // namespace headrace

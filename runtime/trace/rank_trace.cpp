#include "runtime/trace/rank_trace.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/schedule/wire.h"

namespace headrace {
namespace {

constexpr std::size_t kSpanBytes = 8 + 8 + 8 + 4 + 1;

void put_offset(ByteWriter& writer, const ClockOffset& offset) {
  writer.put(offset.offset_ns);
  writer.put(offset.error_ns);
}

ClockOffset get_offset(ByteReader& reader) {
  const auto offset = reader.get<std::int64_t>("clock offset");
  return {.offset_ns = offset, .error_ns = reader.get<std::int64_t>("clock error")};
}

void put_span(ByteWriter& writer, const Span& span) {
  writer.put(span.begin_ns);
  writer.put(span.end_ns);
  writer.put(span.step);
  writer.put(span.rows);
  writer.put(static_cast<std::uint8_t>(span.phase));
}

Span get_span(ByteReader& reader) {
  Span span;
  span.begin_ns = reader.get<std::int64_t>("span");
  span.end_ns = reader.get<std::int64_t>("span");
  span.step = reader.get<std::int64_t>("span");
  span.rows = reader.get<std::int32_t>("span");
  const auto phase = reader.get<std::uint8_t>("phase");
  reader.require(phase < kNumPhases, "phase", "is none that is known");
  span.phase = static_cast<Phase>(phase);
  return span;
}

}  // namespace

std::int64_t ClockMap::to_root(std::int64_t own_ns) const {
  if (last_ns <= first_ns) return own_ns + first.offset_ns;
  if (std::abs(last.offset_ns - first.offset_ns) <= first.error_ns + last.error_ns) {
    return own_ns + (last.error_ns < first.error_ns ? last : first).offset_ns;
  }
  const double share =
      static_cast<double>(own_ns - first_ns) / static_cast<double>(last_ns - first_ns);
  const auto drift = static_cast<double>(last.offset_ns - first.offset_ns);
  return own_ns + first.offset_ns + static_cast<std::int64_t>(drift * share);
}

RankTrace take_trace(const SpanRecorder& recorder, std::size_t max_spans) {
  RankTrace trace;
  trace.begin_ns = recorder.begin_ns();
  trace.worked_ns = recorder.worked_ns();
  trace.end_ns = recorder.end_ns();
  trace.times = recorder.times();
  trace.bounds = recorder.bounds();
  trace.num_dropped = recorder.num_dropped();
  trace.spans = recorder.spans();
  if (trace.spans.size() > max_spans) {
    const auto excess = static_cast<std::ptrdiff_t>(trace.spans.size() - max_spans);
    trace.spans.erase(trace.spans.begin(), trace.spans.begin() + excess);
    trace.num_dropped += excess;
  }
  return trace;
}

std::string encode_trace(const RankTrace& trace) {
  std::vector<std::byte> bytes;
  bytes.reserve(trace.spans.size() * kSpanBytes + 1024);
  ByteWriter writer(bytes);
  for (const int value : {trace.rank, trace.at.data, trace.at.pipeline, trace.at.tensor}) {
    writer.put(static_cast<std::int32_t>(value));
  }
  writer.put(static_cast<std::uint32_t>(trace.host.size()));
  writer.put_all(std::span(trace.host.data(), trace.host.size()));
  writer.put(trace.clock.first_ns);
  writer.put(trace.clock.last_ns);
  put_offset(writer, trace.clock.first);
  put_offset(writer, trace.clock.last);
  for (const std::int64_t value :
       {trace.begin_ns, trace.worked_ns, trace.end_ns, trace.num_dropped}) {
    writer.put(value);
  }
  writer.put_all(std::span<const std::int64_t>(trace.times));
  writer.put_all(std::span<const std::int64_t>(trace.bounds));
  writer.put(static_cast<std::uint64_t>(trace.spans.size()));
  for (const Span& span : trace.spans) put_span(writer, span);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RankTrace decode_trace(const std::string& bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes)), "trace of a rank");
  RankTrace trace;
  for (int* value : {&trace.rank, &trace.at.data, &trace.at.pipeline, &trace.at.tensor}) {
    *value = reader.get<std::int32_t>("place");
  }
  std::vector<char> host;
  reader.get_all(reader.get<std::uint32_t>("host"), host, "host");
  trace.host.assign(host.begin(), host.end());
  trace.clock.first_ns = reader.get<std::int64_t>("clock");
  trace.clock.last_ns = reader.get<std::int64_t>("clock");
  trace.clock.first = get_offset(reader);
  trace.clock.last = get_offset(reader);
  for (std::int64_t* value :
       {&trace.begin_ns, &trace.worked_ns, &trace.end_ns, &trace.num_dropped}) {
    *value = reader.get<std::int64_t>("times");
  }
  for (std::int64_t& value : trace.times) value = reader.get<std::int64_t>("times");
  for (std::int64_t& value : trace.bounds) value = reader.get<std::int64_t>("bounds");
  const auto count = reader.get<std::uint64_t>("spans");
  reader.need(count, kSpanBytes, "spans");
  trace.spans.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) trace.spans.push_back(get_span(reader));
  return trace;
}

}  // namespace headrace

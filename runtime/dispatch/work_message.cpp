#include "runtime/dispatch/work_message.h"

#include "runtime/schedule/step_wire.h"

namespace headrace {
namespace {

constexpr std::size_t kSequenceBytes = 20;  // without what has a length of its own
constexpr std::size_t kEventBytes = 14;
constexpr std::size_t kStopBytes = sizeof(SequenceId);

std::uint32_t count_of(std::size_t size) {
  return static_cast<std::uint32_t>(size);
}

Admission admission_of(const NewSequence& sequence) {
  return {.slot = 0,
          .num_prompt_tokens = sequence.num_prompt_tokens,
          .max_length = sequence.num_prompt_tokens + sequence.max_tokens,
          .params = sequence.params};
}

std::size_t scored_bytes(const ScoredToken& token) {
  return 16 + token.top.size() * (sizeof(TokenId) + sizeof(float));
}

void put_order(ByteWriter& writer, WorkOrder order) {
  writer.put(static_cast<std::uint8_t>(order));
}

WorkOrder get_order(ByteReader& reader) {
  const auto order = reader.get<std::uint8_t>("order");
  reader.require(order <= static_cast<std::uint8_t>(WorkOrder::kFinish), "order", "is unknown");
  return static_cast<WorkOrder>(order);
}

void put_sequence(ByteWriter& writer, const NewSequence& sequence) {
  writer.put(sequence.id);
  writer.put(static_cast<std::int32_t>(sequence.priority));
  writer.put(count_of(sequence.tokens.size()));
  writer.put(count_of(sequence.stop_token_ids.size()));
  writer.put_all(std::span<const TokenId>(sequence.tokens));
  writer.put_all(std::span<const TokenId>(sequence.stop_token_ids));
  put_admission(writer, admission_of(sequence));
}

NewSequence get_sequence(ByteReader& reader) {
  NewSequence sequence;
  sequence.id = reader.get<SequenceId>("id");
  sequence.priority = reader.get<std::int32_t>("priority");
  const auto num_tokens = reader.get<std::uint32_t>("num_tokens");
  const auto num_stops = reader.get<std::uint32_t>("num_stop_token_ids");
  reader.get_all(num_tokens, sequence.tokens, "tokens");
  reader.get_all(num_stops, sequence.stop_token_ids, "stop_token_ids");
  Admission admission = get_admission(reader);
  sequence.num_prompt_tokens = admission.num_prompt_tokens;
  sequence.max_tokens = admission.max_length - admission.num_prompt_tokens;
  sequence.params = std::move(admission.params);
  return sequence;
}

void put_event(ByteWriter& writer, const SequenceEvent& event) {
  writer.put(event.id);
  writer.put(static_cast<std::uint8_t>(event.has_token ? 1 : 0));
  writer.put(static_cast<std::uint8_t>(event.finish));
  writer.put(count_of(event.prompt_scores.size()));
  for (const ScoredToken& score : event.prompt_scores) put_scored(writer, score);
  if (event.has_token) put_scored(writer, event.token);
}

SequenceEvent get_event(ByteReader& reader) {
  SequenceEvent event;
  event.id = reader.get<SequenceId>("id");
  event.has_token = reader.get<std::uint8_t>("has_token") != 0;
  const auto finish = reader.get<std::uint8_t>("finish");
  reader.require(finish <= static_cast<std::uint8_t>(FinishReason::kLength), "finish",
                 "is unknown");
  event.finish = static_cast<FinishReason>(finish);
  const auto num_scores = reader.get<std::uint32_t>("num_prompt_scores");
  reader.need(num_scores, 16, "prompt_scores");
  for (std::uint32_t i = 0; i < num_scores; ++i) event.prompt_scores.push_back(get_scored(reader));
  if (event.has_token) event.token = get_scored(reader);
  return event;
}

void put_view(ByteWriter& writer, const ReplicaView& view) {
  const SchedulerStats& s = view.scheduler;
  for (const int value :
       {s.num_waiting, s.num_running, s.num_in_flight, s.num_free_blocks, s.num_free_swap_blocks}) {
    writer.put(static_cast<std::int32_t>(value));
  }
  for (const std::int64_t value :
       {s.num_preemptions, s.num_swapped_sequences, s.num_swapped_blocks, s.num_recomputed_tokens,
        s.num_waiting_prompt_tokens, view.head.steps, view.head.rows, view.head.host_ns}) {
    writer.put(value);
  }
  writer.put(count_of(view.times.size()));
  for (const StageTimes& times : view.times) {
    for (const std::int64_t value : {times.busy_ns, times.wait_ns, times.transfer_ns}) {
      writer.put(value);
    }
  }
}

ReplicaView get_view(ByteReader& reader) {
  ReplicaView view;
  SchedulerStats& s = view.scheduler;
  for (int* value : {&s.num_waiting, &s.num_running, &s.num_in_flight, &s.num_free_blocks,
                     &s.num_free_swap_blocks}) {
    *value = reader.get<std::int32_t>("scheduler");
  }
  for (std::int64_t* value : {&s.num_preemptions, &s.num_swapped_sequences, &s.num_swapped_blocks,
                              &s.num_recomputed_tokens, &s.num_waiting_prompt_tokens,
                              &view.head.steps, &view.head.rows, &view.head.host_ns}) {
    *value = reader.get<std::int64_t>("counters");
  }
  const auto num_stages = reader.get<std::uint32_t>("num_stages");
  reader.need(num_stages, sizeof(StageTimes), "times");
  view.times.resize(num_stages);
  for (StageTimes& times : view.times) {
    for (std::int64_t* value : {&times.busy_ns, &times.wait_ns, &times.transfer_ns}) {
      *value = reader.get<std::int64_t>("times");
    }
  }
  return view;
}

}  // namespace

std::size_t encoded_bytes(const NewSequence& sequence) {
  return kSequenceBytes + (sequence.tokens.size() + sequence.stop_token_ids.size()) * 4 +
         encoded_bytes(admission_of(sequence));
}

std::size_t encoded_bytes(const SequenceEvent& event) {
  std::size_t bytes = kEventBytes;
  for (const ScoredToken& score : event.prompt_scores) bytes += scored_bytes(score);
  return event.has_token ? bytes + scored_bytes(event.token) : bytes;
}

std::size_t work_header_bytes(std::size_t num_stops) {
  return 1 + 4 + 4 + num_stops * kStopBytes;
}

std::size_t report_header_bytes(std::size_t num_stages) {
  return 1 + 5 * 4 + 8 * 8 + 4 + num_stages * sizeof(StageTimes) + 4;
}

void encode(const WorkMessage& message, std::vector<std::byte>& out) {
  ByteWriter writer(out);
  put_order(writer, message.order);
  writer.put(count_of(message.stops.size()));
  writer.put(count_of(message.sequences.size()));
  writer.put_all(std::span<const SequenceId>(message.stops));
  for (const NewSequence& sequence : message.sequences) put_sequence(writer, sequence);
}

WorkMessage decode_work(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "work message");
  WorkMessage message;
  message.order = get_order(reader);
  const auto num_stops = reader.get<std::uint32_t>("num_stops");
  const auto num_sequences = reader.get<std::uint32_t>("num_sequences");
  reader.get_all(num_stops, message.stops, "stops");
  reader.need(num_sequences, kSequenceBytes, "sequences");
  for (std::uint32_t i = 0; i < num_sequences; ++i) {
    message.sequences.push_back(get_sequence(reader));
  }
  reader.require(reader.num_left() == 0, "sequences", "must end the message");
  return message;
}

void encode(const ReportMessage& message, std::vector<std::byte>& out) {
  ByteWriter writer(out);
  put_order(writer, message.done);
  put_view(writer, message.view);
  writer.put(count_of(message.events.size()));
  for (const SequenceEvent& event : message.events) put_event(writer, event);
}

ReportMessage decode_report_message(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "report message");
  ReportMessage message;
  message.done = get_order(reader);
  message.view = get_view(reader);
  const auto num_events = reader.get<std::uint32_t>("num_events");
  reader.need(num_events, kEventBytes, "events");
  for (std::uint32_t i = 0; i < num_events; ++i) message.events.push_back(get_event(reader));
  reader.require(reader.num_left() == 0, "events", "must end the message");
  return message;
}

}  // namespace headrace

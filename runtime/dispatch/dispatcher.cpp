#include "runtime/dispatch/dispatcher.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "comm/waiting.h"

namespace headrace {
namespace {

// From so many tokens a replica on, each one's share of them says how fast it is.
constexpr std::int64_t kTellingTokens = 1000;

// A replica is taken from when it would run this many times as long as one that takes over, which
// has the sequence's tokens so far to compute again.
constexpr double kWorthMoving = 2.0;

// A step of fewer rows takes about as long: the weights are read once, however few they are.
constexpr int kSmallBatch = 16;

// Recalled sequences are back as new ones long before this.
constexpr double kRecallInterval_s = 0.25;

// An idle link carries an empty message this often, as a part of the stall timeout.
constexpr double kAliveInterval = 0.25;

}  // namespace

Dispatcher::Dispatcher(std::vector<ReplicaLink> others, DispatchSettings settings)
    : settings_(settings) {
  replicas_.emplace_back();
  for (ReplicaLink& link : others) {
    replicas_.emplace_back();
    replicas_.back().link = std::move(link);
    replicas_.back().last_heard_ns = now_ns();
  }
}

void Dispatcher::add(std::vector<NewSequence>& sequences, const std::vector<SequenceId>& stops) {
  for (NewSequence& sequence : sequences) pending_.push_back(std::move(sequence));
  sequences.clear();
  for (const SequenceId id : stops) {
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) continue;  // it ended by itself meanwhile
    replicas_[owner->second].stops.push_back(id);
    end(id);
  }
  assign();
}

void Dispatcher::assign() {
  while (!pending_.empty()) {
    const std::size_t index = next_replica();
    if (index == replicas_.size()) return;
    Replica& replica = replicas_[index];
    const SequenceId id = pending_.front().id;
    owners_.emplace(id, index);
    replica.work.push_back(std::move(pending_.front()));
    replica.assigned.push_back(id);
    pending_.pop_front();
  }
}

bool Dispatcher::rates_are_known() const {
  std::int64_t num_tokens = 0;
  for (const Replica& replica : replicas_) num_tokens += replica.num_tokens;
  return num_tokens >= kTellingTokens * std::ssize(replicas_);
}

// How long a replica needs for a token of so many sequences, in a unit that is the same for all.
double Dispatcher::round_time(const Replica& replica, int num_sequences) const {
  if (!rates_are_known()) return num_sequences;
  return num_sequences / static_cast<double>(std::max<std::int64_t>(replica.num_tokens, 1));
}

// The replica that would be through with one more sequence first; none where all have enough.
std::size_t Dispatcher::next_replica() const {
  if (replicas_.size() == 1) return 0;
  std::size_t best = replicas_.size();
  double best_time = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[i];
    if (static_cast<int>(replica.assigned.size()) >= settings_.max_outstanding) continue;
    const double time = round_time(replica, static_cast<int>(replica.assigned.size()) + 1);
    if (time >= best_time) continue;
    best = i;
    best_time = time;
  }
  return best;
}

// The youngest of the slowest replica move until it is no longer worth it: they have the fewest
// tokens to compute again. They count as the taker's only once they come back as new ones.
std::vector<SequenceId> Dispatcher::recall() {
  std::vector<SequenceId> recalled;
  if (replicas_.size() == 1 || !pending_.empty() || !rates_are_known()) return recalled;
  if (seconds_since(last_recall_ns_) < kRecallInterval_s) return recalled;
  const auto time_of = [this](const Replica& replica, int num_more) {
    const int count = static_cast<int>(replica.assigned.size()) + num_more;
    return count == 0 ? 0.0 : round_time(replica, std::max(count, kSmallBatch));
  };
  Replica& giver = *std::max_element(
      replicas_.begin(), replicas_.end(),
      [&](const Replica& a, const Replica& b) { return time_of(a, 0) < time_of(b, 0); });
  const std::size_t index = next_replica();
  if (index == replicas_.size()) return recalled;
  const Replica& taker = replicas_[index];
  const int most = settings_.max_outstanding - static_cast<int>(taker.assigned.size());
  while (static_cast<int>(recalled.size()) < most) {
    const int num_more = static_cast<int>(recalled.size()) + 1;
    if (time_of(giver, 0) <= kWorthMoving * time_of(taker, num_more)) break;
    recalled.push_back(giver.assigned.back());
    giver.stops.push_back(recalled.back());
    end(recalled.back());
  }
  if (!recalled.empty()) last_recall_ns_ = now_ns();
  // What never left this rank needs no stop.
  std::erase_if(giver.work, [&](const NewSequence& sequence) {
    return std::find(recalled.begin(), recalled.end(), sequence.id) != recalled.end();
  });
  return recalled;
}

void Dispatcher::take_own(std::vector<NewSequence>& sequences, std::vector<SequenceId>& stops) {
  Replica& own = replicas_.front();
  for (NewSequence& sequence : own.work) sequences.push_back(std::move(sequence));
  own.work.clear();
  stops.insert(stops.end(), own.stops.begin(), own.stops.end());
  own.stops.clear();
}

void Dispatcher::end(SequenceId id) {
  const auto owner = owners_.find(id);
  if (owner == owners_.end()) return;
  std::erase(replicas_[owner->second].assigned, id);
  owners_.erase(owner);
}

void Dispatcher::note(const SequenceEvent& event, Replica& replica) {
  if (event.has_token) replica.num_tokens += 1;
  if (event.finish != FinishReason::kNone) end(event.id);
}

void Dispatcher::note_own(const std::vector<SequenceEvent>& events) {
  for (const SequenceEvent& event : events) note(event, replicas_.front());
  assign();
}

bool Dispatcher::exchange(std::vector<SequenceEvent>& events) {
  bool came = false;
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    came = take_reports(replicas_[i], events) || came;
  }
  if (came) assign();
  for (std::size_t i = 1; i < replicas_.size(); ++i) send_work(replicas_[i]);
  return came;
}

bool Dispatcher::take_reports(Replica& replica, std::vector<SequenceEvent>& events) {
  bool came = false;
  while (const auto bytes = replica.link.reports->try_receive()) {
    ReportMessage report = decode_report_message(*bytes);
    replica.link.reports->release();
    replica.last_heard_ns = now_ns();
    replica.done = report.done;
    replica.view = std::move(report.view);
    for (SequenceEvent& event : report.events) {
      note(event, replica);
      events.push_back(std::move(event));
    }
    came = true;
  }
  if (settings_.stall_timeout_s > 0 && replica.done != WorkOrder::kFinish &&
      seconds_since(replica.last_heard_ns) > settings_.stall_timeout_s) {
    throw_stalled(settings_.stall_timeout_s, "to hear from " + replica.link.name);
  }
  return came;
}

// At most one message at a time: what does not fit goes with the next.
void Dispatcher::send_work(Replica& replica) {
  const bool alive_due =
      settings_.stall_timeout_s > 0 &&
      seconds_since(replica.last_sent_ns) > settings_.stall_timeout_s * kAliveInterval;
  if (replica.work.empty() && replica.stops.empty() && replica.order_sent && !alive_due) return;
  if (replica.done == WorkOrder::kFinish) return;
  const auto buffer = replica.link.work->try_acquire();
  if (!buffer) return;
  WorkMessage message;
  message.order = replica.order;
  message.stops.swap(replica.stops);
  std::size_t size = work_header_bytes(message.stops.size());
  while (!replica.work.empty()) {
    size += encoded_bytes(replica.work.front());
    if (size > buffer->size()) break;
    message.sequences.push_back(std::move(replica.work.front()));
    replica.work.pop_front();
  }
  bytes_.clear();
  encode(message, bytes_);
  if (bytes_.size() > buffer->size()) {
    throw std::logic_error("a work message of " + std::to_string(bytes_.size()) +
                           " bytes does not fit " + std::to_string(buffer->size()));
  }
  std::memcpy(buffer->data(), bytes_.data(), bytes_.size());
  replica.link.work->post(bytes_.size());
  replica.order_sent = true;
  replica.last_sent_ns = now_ns();
}

void Dispatcher::give(WorkOrder order) {
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    if (replicas_[i].order >= order) continue;
    replicas_[i].order = order;
    replicas_[i].order_sent = false;
  }
}

bool Dispatcher::all_done(WorkOrder order) const {
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    if (replicas_[i].done < order) return false;
  }
  return true;
}

std::vector<ReplicaView> Dispatcher::views() const {
  std::vector<ReplicaView> views;
  for (std::size_t i = 1; i < replicas_.size(); ++i) views.push_back(replicas_[i].view);
  return views;
}

std::size_t max_work_message_bytes(int max_model_len) {
  constexpr std::size_t kParams =
      256 + std::size_t{kMaxLogitBias} * 8 + std::size_t{kMaxStopIds} * 8;
  constexpr std::size_t kStops = std::size_t{64} << 10;
  constexpr std::size_t kSmall = std::size_t{256} << 10;
  return static_cast<std::size_t>(max_model_len) * sizeof(TokenId) + kParams + kStops + kSmall;
}

std::size_t max_report_message_bytes(std::size_t max_result_bytes, int num_stages) {
  return report_header_bytes(static_cast<std::size_t>(num_stages)) + 2 * max_result_bytes;
}

}  // namespace headrace

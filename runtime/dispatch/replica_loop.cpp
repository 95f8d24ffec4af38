#include "runtime/dispatch/replica_loop.h"

#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "comm/waiting.h"

namespace headrace {
namespace {

// Counts reach rank 0 at least this often, for progress and to show that this rank lives.
constexpr double kReportInterval_s = 0.5;

}  // namespace

ReplicaLoop::ReplicaLoop(DispatcherLink link, Scheduler& scheduler, ReplicaHead& head)
    : link_(std::move(link)), scheduler_(scheduler), head_(head), last_heard_ns_(now_ns()) {}

void ReplicaLoop::run() {
  while (order_ != WorkOrder::kFinish) {
    bool worked = take_work();
    found_.clear();
    while (head_.take_result(found_)) worked = true;
    events_.insert(events_.end(), std::make_move_iterator(found_.begin()),
                   std::make_move_iterator(found_.end()));
    if (order_ == WorkOrder::kRun) worked = head_.start_step() || worked;
    update_done();
    report();
    if (!worked) head_.wait();
  }
  finish();
}

bool ReplicaLoop::take_work() {
  const auto bytes = link_.work->try_receive();
  if (!bytes) {
    if (link_.stall_timeout_s > 0 && seconds_since(last_heard_ns_) > link_.stall_timeout_s) {
      throw_stalled(link_.stall_timeout_s, "to hear from " + link_.name);
    }
    return false;
  }
  last_heard_ns_ = now_ns();
  WorkMessage message = decode_work(*bytes);
  link_.work->release();
  add(std::move(message));
  return true;
}

void ReplicaLoop::add(WorkMessage message) {
  order_ = message.order;
  for (const SequenceId id : message.stops) scheduler_.stop(id);
  for (NewSequence& sequence : message.sequences) scheduler_.add_checked(std::move(sequence));
}

void ReplicaLoop::update_done() {
  if (order_ == WorkOrder::kDrain && head_.num_in_flight() == 0) done_ = WorkOrder::kDrain;
}

// As many events as fit; the order they carry out is reported with the last of them.
void ReplicaLoop::report() {
  const bool news = !events_.empty() || reported_ != done_;
  if (!news && seconds_since(last_report_ns_) < kReportInterval_s) return;
  const auto buffer = link_.reports->try_acquire();
  if (!buffer) return;
  ReportMessage message{
      .done = done_,
      .view = {.scheduler = scheduler_.stats(), .head = head_.counters(), .times = head_.times()},
      .events = {}};
  std::size_t size = report_header_bytes(message.view.times.size());
  while (!events_.empty()) {
    size += encoded_bytes(events_.front());
    if (size > buffer->size()) break;
    message.events.push_back(std::move(events_.front()));
    events_.pop_front();
  }
  if (!events_.empty()) message.done = reported_;
  bytes_.clear();
  encode(message, bytes_);
  if (bytes_.size() > buffer->size() || (message.events.empty() && !events_.empty())) {
    throw std::logic_error("an event does not fit a report of " + std::to_string(buffer->size()) +
                           " bytes");
  }
  std::memcpy(buffer->data(), bytes_.data(), bytes_.size());
  link_.reports->post(bytes_.size());
  reported_ = message.done;
  last_report_ns_ = now_ns();
}

void ReplicaLoop::finish() {
  head_.finish();
  events_.clear();  // nothing is wanted any more
  done_ = WorkOrder::kFinish;
  Waiting waiting(link_.name + " to take the last report", link_.stall_timeout_s);
  while (reported_ != WorkOrder::kFinish) {
    report();
    if (reported_ != WorkOrder::kFinish) waiting.pause();
  }
  while (!link_.reports->drained()) waiting.pause();
}

}  // namespace headrace

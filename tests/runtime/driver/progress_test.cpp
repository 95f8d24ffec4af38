#include "runtime/driver/progress.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

TEST(Progress, DurationsReadAsPeopleWriteThem) {
  EXPECT_EQ(duration_text(42.4), "42s");
  EXPECT_EQ(duration_text(187), "3m07s");
  EXPECT_EQ(duration_text(3720), "1h02m");
  EXPECT_EQ(duration_text(-1), "0s");
}

TEST(Progress, SharesAreOfTheTimeBetweenTwoLooks) {
  const StageTimes from{.busy_ns = 1000, .wait_ns = 1000, .transfer_ns = 1000};
  const StageTimes to{.busy_ns = 1900, .wait_ns = 1080, .transfer_ns = 1020};
  EXPECT_EQ(stage_shares(1, from, to), "1:90/8/2");
}

TEST(Progress, ALineCountsRatesSinceTheLineBefore) {
  ProgressView before;
  before.elapsed_s = 10;
  before.host.num_run_tokens = 1000;
  ProgressView view = before;
  view.elapsed_s = 12;
  view.host.num_run_tokens = 1500;
  view.host.job.num_answered = 30;
  view.host.num_run_lines = 30;
  view.host.num_live_lines = 10;
  view.host.input_ended = true;
  view.num_blocks = 100;
  view.replicas.resize(2);
  view.replicas[0].scheduler.num_free_blocks = 100;
  view.replicas[1].scheduler.num_free_blocks = 50;
  const std::string line = progress_line(view, before);
  EXPECT_NE(line.find("out 250 tok/s"), std::string::npos) << line;
  EXPECT_NE(line.find(" 75%"), std::string::npos) << line;
  EXPECT_NE(line.find("KV 25%"), std::string::npos) << line;
  EXPECT_NE(line.find("ETA 4s"), std::string::npos) << line;
}

TEST(Progress, ReplicasShowTheirStagesApartAndManyAreSummedUp) {
  ProgressView view;
  view.replicas.resize(2);
  view.replicas[0].times = {{.busy_ns = 90, .wait_ns = 10, .transfer_ns = 0}};
  view.replicas[1].times = {{.busy_ns = 60, .wait_ns = 30, .transfer_ns = 10}};
  const std::string few = progress_line(view, {});
  EXPECT_NE(few.find("busy/wait/transfer % 0:90/10/0 | 0:60/30/10"), std::string::npos) << few;
  view.replicas.resize(9, view.replicas[1]);
  const std::string many = progress_line(view, {});
  EXPECT_NE(many.find("9 stages busy 60 to 90 %"), std::string::npos) << many;
}

TEST(Progress, AnInputOfUnknownSizeHasNoEta) {
  ProgressView view;
  view.elapsed_s = 5;
  view.host.job.num_answered = 3;
  view.host.num_run_lines = 3;
  const std::string line = progress_line(view, {});
  EXPECT_EQ(line.find("ETA"), std::string::npos) << line;
  EXPECT_EQ(line.find("#"), std::string::npos) << line;
}

}  // namespace
}  // namespace headrace

#include "comm/waiting.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace headrace {
namespace {

TEST(Waiting, ASilentPeerIsNamedWhenTimeIsUp) {
  Waiting waiting("a step from rank 1 on host b (stage 1)", 0.01);
  try {
    for (;;) waiting.pause();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("rank 1 on host b"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("--stall-timeout"), std::string::npos);
  }
}

TEST(Waiting, WithoutATimeoutItOnlyPauses) {
  Waiting waiting("nothing", 0.0);
  for (int i = 0; i < 1000; ++i) waiting.pause();
}

}  // namespace
}  // namespace headrace

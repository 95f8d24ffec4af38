#include "runtime/driver/latency.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

constexpr double kSmallest = 1e-6;
constexpr double kGrowth = 1.02;
constexpr int kNumBuckets = 1200;  // 1.02^1200 * 1e-6 s is about 5.9 hours

int bucket_of(double seconds) {
  const double position = std::log(std::max(seconds, kSmallest) / kSmallest) / std::log(kGrowth);
  return std::min(static_cast<int>(position), kNumBuckets - 1);
}

}  // namespace

LatencyDistribution::LatencyDistribution() : buckets_(kNumBuckets, 0) {}

void LatencyDistribution::add(double seconds) {
  buckets_[static_cast<std::size_t>(bucket_of(seconds))] += 1;
  min_ = count_ == 0 ? seconds : std::min(min_, seconds);
  max_ = count_ == 0 ? seconds : std::max(max_, seconds);
  count_ += 1;
  const double before = seconds - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (seconds - mean_);
}

double LatencyDistribution::percentile(double fraction) const {
  const auto wanted = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count_)));
  std::int64_t seen = 0;
  for (int i = 0; i < kNumBuckets; ++i) {
    seen += buckets_[static_cast<std::size_t>(i)];
    if (seen >= wanted && seen > 0) {
      const double middle = kSmallest * std::pow(kGrowth, i + 0.5);
      return std::clamp(middle, min_, max_);
    }
  }
  return max_;
}

LatencyDistribution::Summary LatencyDistribution::summary() const {
  if (count_ == 0) return {};
  return {.count = count_,
          .mean_s = mean_,
          .median_s = percentile(0.5),
          .p95_s = percentile(0.95),
          .min_s = min_,
          .max_s = max_,
          .std_s = std::sqrt(squares_ / static_cast<double>(count_))};
}

}  // namespace headrace

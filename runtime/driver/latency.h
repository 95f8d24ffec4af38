// Distribution of durations in bounded memory.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace {

/// Counts durations in buckets whose bounds grow by 2 %, from 1 microsecond to some hours, so
/// medians and percentiles are within 1 %; mean, deviation and extremes are exact.
class LatencyDistribution {
 public:
  LatencyDistribution();

  void add(double seconds);

  struct Summary {
    std::int64_t count = 0;
    double mean_s = 0.0;
    double median_s = 0.0;
    double p95_s = 0.0;
    double min_s = 0.0;
    double max_s = 0.0;
    double std_s = 0.0;
  };
  Summary summary() const;

 private:
  double percentile(double fraction) const;

  std::vector<std::int64_t> buckets_;
  std::int64_t count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;  // sum of squared distances from the mean (Welford, 1962)
  double min_ = 0.0;
  double max_ = 0.0;
};

}  // namespace headrace

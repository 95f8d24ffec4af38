#include "launch/rank_profile.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/agreement.h"
#include "launch/device_profile.h"

namespace headrace {
namespace {

// What a rank sends at the end: how many products took what was known, a blank, and what it found
// as a profile.
std::string report_of(const RankDevice& device) {
  DeviceProfile found;
  if (!device.profile->found().empty()) {
    found[profiled_device(device.gpu)] = device.profile->found();
  }
  return fmt::format("{} {}", device.profile->num_taken(), device_profile_text(found));
}

struct Reports {
  int num_taken = 0;
  DeviceProfile found;  // where two ranks found the same out, by the lower one
};

Reports read_reports(const std::vector<std::string>& texts) {
  Reports reports;
  for (const std::string& text : texts) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string::npos) continue;  // of a rank on a CPU
    reports.num_taken += std::stoi(text.substr(0, blank));
    for (auto& [device, answers] :
         parse_device_profile(std::string_view(text).substr(blank + 1), "a rank's report")) {
      reports.found[device].merge(answers);
    }
  }
  return reports;
}

std::size_t num_products(const DeviceProfile& profile) {
  std::size_t count = 0;
  for (const auto& [device, answers] : profile) count += answers.size();
  return count;
}

// The job goes on without the file.
std::string saved_text(const std::string& path, const DeviceProfile& found) {
  if (found.empty()) return "none tried out";
  try {
    add_to_device_profile(path, found);
  } catch (const std::exception& failure) {
    return fmt::format("{} tried out, which cannot be kept: {}", num_products(found),
                       failure.what());
  }
  return fmt::format("{} tried out and added", num_products(found));
}

}  // namespace

void open_rank_profile(const Environment& environment, const GenerateOptions& options,
                       RankDevice& device) {
  if (options.device_profile.empty()) return;
  const Communicator& world = environment.world();
  const bool no_gpu = world.min(device.is_gpu ? 0 : 1) == 1;
  std::string text;
  prepare_together(world, [&] {
    if (no_gpu) {
      const std::string why = options.backend == "cpu" ? ": " + cuda_devices().why_none : "";
      throw std::invalid_argument("--device-profile is for GPUs, and no rank computes on one" +
                                  why);
    }
    if (environment.rank() != 0) return;
    text = read_device_profile(options.device_profile);
    parse_device_profile(text, options.device_profile);
  });
  text = world.broadcast(text, 0);
  if (!device.is_gpu) return;
  DeviceProfile profile = parse_device_profile(text, options.device_profile);
  const ProfiledDevice own = profiled_device(device.gpu);
  const std::size_t num_others = profile.size() - profile.count(own);
  device.profile = std::make_shared<GemmProfile>(std::move(profile[own]));
  if (environment.rank() == 0) {
    fmt::print(stderr, "{}: {} products known of {}, {} other device{} or version{}\n",
               options.device_profile, device.profile->num_known(), own.text(), num_others,
               num_others == 1 ? "" : "s", num_others == 1 ? "" : "s");
  }
}

void save_rank_profile(const Environment& environment, const GenerateOptions& options,
                       const RankDevice& device) {
  if (options.device_profile.empty()) return;
  const std::vector<std::string> texts =
      environment.world().gather(device.profile ? report_of(device) : std::string(), 0);
  if (environment.rank() != 0) return;
  const Reports reports = read_reports(texts);
  fmt::print(stderr, "{}: {} products taken, {}\n", options.device_profile, reports.num_taken,
             saved_text(options.device_profile, reports.found));
}

}  // namespace headrace

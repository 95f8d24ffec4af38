#include "launch/device_profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/job/hash.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

const ProfiledDevice kOwn{.name = "GPU \"A\"", .sm = 90, .cublaslt = 130100, .driver = 13000};
const ProfiledDevice kNewer{.name = "GPU \"A\"", .sm = 90, .cublaslt = 130200, .driver = 13000};

GemmShape shape_of(std::int64_t n) {
  return {.n = n, .k = 64, .stride = 72, .dtype = DType::kFloat16, .alignment = 8};
}

GemmAnswer answer_of(std::uint64_t seed) {
  GemmAnswer answer{.rows = GemmRows::kSteady, .most_rows = 1024};
  for (std::uint64_t& word : answer.algorithm) word = seed++ * 0x9E3779B97F4A7C15U;
  return answer;
}

DeviceProfile two_devices() {
  GemmShape filled = shape_of(128);
  filled.filled_rows = 256;
  return {{kOwn,
           {{shape_of(128), answer_of(1)},
            {filled, {.algorithm = {}, .rows = GemmRows::kFilled, .most_rows = 256}},
            {shape_of(64), {.algorithm = {5}, .rows = GemmRows::kUnsteady, .most_rows = 300}}}},
          {kNewer, {{shape_of(128), answer_of(3)}}}};
}

std::string refusal_of(const std::string& text) {
  try {
    parse_device_profile(text, "FILE");
  } catch (const std::invalid_argument& refusal) {
    return refusal.what();
  }
  return "";
}

// The text with a change to the first product, and the checksum that it should then have.
std::string changed(
    const std::function<void(ordered_json& device, ordered_json& product)>& change) {
  ordered_json json = ordered_json::parse(device_profile_text(two_devices()));
  ordered_json& device = json["devices"][0];
  change(device, device["products"][0]);
  device["checksum"] = hex(hash128(device["products"].dump()));
  return json.dump(1);
}

TEST(DeviceProfile, ComesBackAsItWasWritten) {
  const DeviceProfile profile = two_devices();
  EXPECT_EQ(parse_device_profile(device_profile_text(profile), "FILE"), profile);
  EXPECT_EQ(parse_device_profile(device_profile_text({}), "FILE"), DeviceProfile());
  EXPECT_EQ(kOwn.text(), "GPU \"A\" (sm 90, cuBLASLt 13.1.0, driver for CUDA 13.0)");
}

TEST(DeviceProfile, ThatIsCutOffIsRefused) {
  const std::string text = device_profile_text(two_devices());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    EXPECT_NE(refusal_of(text.substr(0, size)).find("FILE: is no device profile"),
              std::string::npos)
        << size;
  }
}

TEST(DeviceProfile, WhoseAlgorithmsHaveChangedIsRefused) {
  std::string text = device_profile_text(two_devices());
  const std::size_t digit = text.find("algorithm") + 40;
  text[digit] = text[digit] == '0' ? '1' : '0';
  EXPECT_NE(refusal_of(text).find("do not have their checksum"), std::string::npos)
      << refusal_of(text);
}

TEST(DeviceProfile, NamesWhatItCannotUse) {
  const auto refusal = [](const auto& change) { return refusal_of(changed(change)); };
  const auto says = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos && text.find('\n') == std::string::npos;
  };
  using Json = ordered_json;
  EXPECT_EQ(refusal([](Json&, Json&) {}), "");
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p.erase("stride"); }), "'stride' is missing"));
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["n"] = 0; }), "'n' is 0, from 1 to"));
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["n"] = 1.5; }), "'n' is 1.5"));
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["n"] = ~0ULL; }), "'n' is 18446744073709551615"));
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["type"] = "int8"; }),
                   "'type' is 'int8', float32, bfloat16 or float16 is accepted"));
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["algorithm"] = "12"; }), "128 hexadecimal"));
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["algorithm"] = std::string(128, 'g'); }),
                   "128 hexadecimal"));
  // The rows that are filled up have to fit.
  EXPECT_TRUE(says(refusal([](Json&, Json& p) { p["rows"] = "filled"; }),
                   "'most_rows' is 300, from 1 to 1 is accepted"));
  EXPECT_TRUE(says(refusal([](Json& d, Json& p) { d["products"].push_back(Json(p)); }),
                   "a product of 64 x 64 is there twice"));
  EXPECT_TRUE(says(refusal([](Json& d, Json&) { d["products"] = 7; }), "'products' is no list"));
  EXPECT_TRUE(says(refusal([](Json& d, Json&) { d["cublaslt"] = 130200; }), "is there twice"));
  EXPECT_TRUE(says(refusal_of("[]"), "'headrace_device_profile' is expected"));
  EXPECT_TRUE(says(refusal_of(R"({"headrace_device_profile": 2, "devices": []})"),
                   "'headrace_device_profile' is 2, from 1 to 1 is accepted"));
}

class DeviceProfileFile : public ::testing::Test {
 protected:
  DeviceProfileFile() { std::filesystem::create_directories(folder_); }
  ~DeviceProfileFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("device_profile." + std::to_string(getpid()));
  std::filesystem::path path_ = folder_ / "gpu.json";

  DeviceProfile stored() const {
    return parse_device_profile(read_device_profile(path_), path_.string());
  }
};

TEST_F(DeviceProfileFile, KeepsWhatItHasAndTakesWhatIsFound) {
  EXPECT_EQ(stored(), DeviceProfile());
  add_to_device_profile(path_, two_devices());
  EXPECT_EQ(stored(), two_devices());
  const ProfiledDevice other{.name = "B", .sm = 100, .cublaslt = 130100, .driver = 13000};
  add_to_device_profile(
      path_, {{other, {{shape_of(9), answer_of(9)}}}, {kOwn, {{shape_of(128), answer_of(77)}}}});
  DeviceProfile expected = two_devices();
  expected[other][shape_of(9)] = answer_of(9);
  expected[kOwn][shape_of(128)] = answer_of(77);  // the one that was known had been refused
  EXPECT_EQ(stored(), expected);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(DeviceProfileFile, IsNotMadeWhereItCannotBe) {
  EXPECT_THROW(read_device_profile(folder_ / "missing" / "gpu.json"), std::invalid_argument);
  EXPECT_THROW(read_device_profile(folder_), std::invalid_argument);
}

TEST_F(DeviceProfileFile, ThatIsDamagedStaysAsItIs) {
  std::ofstream(path_) << "{\"headrace";
  EXPECT_THROW(add_to_device_profile(path_, two_devices()), std::invalid_argument);
  EXPECT_EQ(read_device_profile(path_), "{\"headrace");
}

}  // namespace
}  // namespace headrace

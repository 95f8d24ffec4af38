// Sound inputs with damage that readers stumble over; the same for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace headrace {

class Mutator {
 public:
  struct Material {
    std::vector<std::string> sound;         // what is damaged; at least one
    std::vector<std::string> words;         // of the format, put in here and there; may be none
    std::size_t range = std::string::npos;  // damage begins within so many bytes
  };

  /// material must outlive the mutator.
  Mutator(const Material& material, std::uint64_t seed) : material_(material), random_(seed) {}

  /// A sound input with one to four changes; never empty.
  std::string next();

 private:
  std::size_t below(std::size_t limit);
  void change(std::string& bytes);
  void change_bytes(std::string& bytes, std::size_t at);
  void move_bytes(std::string& bytes, std::size_t at);
  void put_text(std::string& bytes, std::size_t at);
  void exchange_word(std::string& bytes, std::size_t at);

  const Material& material_;
  std::mt19937_64 random_;
};

}  // namespace headrace

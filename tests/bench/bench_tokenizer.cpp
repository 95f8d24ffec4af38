// bench_tokenizer MODEL DOCUMENTS IDS: one side of tests/bench/tokenizer.sh. DOCUMENTS are texts
// that are each ended by a NUL; their ids, without special tokens, go to IDS (int32, one after the
// other). Then each line on standard input is one round: all documents are encoded once, and
// "TOKENS SECONDS" is the answer.
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace {

using headrace::TokenId;
using headrace::Tokenizer;

std::vector<std::string> read_documents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> documents;
  std::string document;
  while (std::getline(file, document, '\0')) documents.push_back(document);
  if (documents.empty()) throw std::runtime_error(path + ": no documents");
  return documents;
}

void write_ids(const Tokenizer& tokenizer, const std::vector<std::string>& documents,
               const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const std::string& document : documents) {
    const std::vector<TokenId> ids = tokenizer.encode(document, {.add_special_tokens = false});
    file.write(reinterpret_cast<const char*>(ids.data()),
               static_cast<std::streamsize>(ids.size() * sizeof(TokenId)));
  }
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

void run_round(const Tokenizer& tokenizer, const std::vector<std::string>& documents) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t tokens = 0;
  for (const std::string& document : documents) {
    tokens += tokenizer.encode(document, {.add_special_tokens = false}).size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << tokens << " " << seconds.count() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: bench_tokenizer MODEL DOCUMENTS IDS\n";
    return 2;
  }
  try {
    const auto tokenizer = Tokenizer::load(argv[1]);
    const std::vector<std::string> documents = read_documents(argv[2]);
    write_ids(*tokenizer, documents, argv[3]);
    std::string line;
    while (std::getline(std::cin, line)) run_round(*tokenizer, documents);
  } catch (const std::exception& error) {
    std::cerr << "bench_tokenizer: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

// The C interface: settings, the exchange, and how a communicator is made of them.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "communicator/c_guard.h"
#include "communicator/c_handles.h"
#include "communicator/settings.h"

using passing::Config;
using passing::Error;
using passing::ErrorCode;
using passing::Expected;
using passing::c::give;
using passing::c::guarded;
using passing::c::is_null;
using passing::c::refuse;

/// What the ranks gave, as far as it has come in.
struct passing_blobs {
  std::vector<std::optional<std::string>> of_rank;
  std::optional<Error> error;
};

namespace {

Expected<std::vector<std::string>> collect(passing_blobs& blobs) {
  if (blobs.error) return tl::unexpected<Error>(std::move(*blobs.error));
  std::vector<std::string> all;
  for (auto& blob : blobs.of_rank) {
    if (!blob) {
      return refuse(fmt::format("the exchange function did not set the blob of rank {}", all.size()));
    }
    all.push_back(std::move(*blob));
  }
  return all;
}

passing::Exchange exchange_of(const passing_config& config) {
  if (config.exchange == nullptr) return {};
  return [function = config.exchange, context = config.context,
          size = config.settings.size](const std::string& blob) -> Expected<std::vector<std::string>> {
    passing_blobs blobs;
    blobs.of_rank.resize(size);
    const int status = function(context, blob.data(), blob.size(), &blobs);
    if (status != 0) {
      return passing::fail(ErrorCode::unreachable, fmt::format("the exchange function returned {}", status));
    }
    return collect(blobs);
  };
}

/// What is wrong with a blob; empty: nothing.
std::string wrong_blob(const passing_blobs& all, uint32_t rank, const void* blob, size_t bytes) {
  if (rank >= all.of_rank.size()) {
    return fmt::format("the exchange function set a blob of rank {}; there are {} ranks", rank,
                       all.of_rank.size());
  }
  if (blob == nullptr && bytes > 0) {
    return fmt::format("the exchange function set a null blob of rank {}", rank);
  }
  return "";
}

}  // namespace

extern "C" {

passing_status passing_config_new(passing_config** config) {
  return guarded([&]() -> Expected<void> {
    if (config == nullptr) return is_null("config");
    *config = nullptr;
    return give(Expected<Config>(Config{}), config);
  });
}

passing_status passing_config_from_environment(passing_config** config) {
  return guarded([&]() -> Expected<void> {
    if (config == nullptr) return is_null("config");
    *config = nullptr;
    return give(Config::from_environment(), config);
  });
}

passing_status passing_config_set(passing_config* config, const char* name, const char* value) {
  return guarded([&]() -> Expected<void> {
    if (config == nullptr) return is_null("config");
    if (name == nullptr) return is_null("name");
    if (value == nullptr) return is_null(name);
    return passing::set_by_name(config->settings, name, value);
  });
}

passing_status passing_config_set_exchange(passing_config* config, passing_exchange exchange, void* context) {
  return guarded([&]() -> Expected<void> {
    if (config == nullptr) return is_null("config");
    config->exchange = exchange;
    config->context = context;
    return {};
  });
}

void passing_blobs_set(passing_blobs* all, uint32_t rank, const void* blob, size_t bytes) {
  if (all == nullptr) return;
  guarded([&]() -> Expected<void> {
    const std::string wrong = wrong_blob(*all, rank, blob, bytes);
    if (wrong.empty()) {
      all->of_rank[rank].emplace(static_cast<const char*>(blob), bytes);
    } else {
      all->error = Error{ErrorCode::invalid_argument, wrong, {}};
    }
    return {};
  });
}

void passing_config_free(passing_config* config) { delete config; }

passing_status passing_create(const passing_config* config, passing_comm** comm) {
  return guarded([&]() -> Expected<void> {
    if (comm == nullptr) return is_null("comm");
    *comm = nullptr;
    if (config == nullptr) return is_null("config");
    Config settings = config->settings;
    settings.exchange = exchange_of(*config);
    return give(passing::Communicator::create(settings), comm);
  });
}

}  // extern "C"

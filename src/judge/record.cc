#include "judge/record.h"

#include <algorithm>

#include "base/bytes.h"

namespace passing::judge {
namespace {

// The order of section 6: what explains more goes first.
int order(ErrorCode code) {
  switch (code) {
    case ErrorCode::disagreement: return 0;
    case ErrorCode::invalid_argument:
    case ErrorCode::no_capacity: return 1;
    case ErrorCode::cancelled: return 2;
    case ErrorCode::peer_lost: return 3;
    case ErrorCode::unreachable:
    case ErrorCode::epoch_ended: return 4;
    case ErrorCode::deadline: return 5;
  }
  return 6;
}

void write(Writer& out, const std::vector<std::uint16_t>& ranks, std::size_t most) {
  const std::size_t count = std::min(ranks.size(), most);
  out.put(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.put(ranks[i]);
}

bool read(Reader& in, std::vector<std::uint16_t>& ranks, std::size_t most) {
  std::uint16_t count = 0;
  in.get(count);
  if (count > most) return false;
  ranks.resize(count);
  for (std::uint16_t& each : ranks) in.get(each);
  return true;
}

void write(Writer& out, const Record& record) {
  const bool busy = record.turn.has_value();
  const auto flags = static_cast<std::uint8_t>((record.left ? 1U : 0U) | (busy ? 2U : 0U));
  out.put(record.version).put(record.round).put(record.called).put(flags);
  if (busy) out.put(*record.turn);
  write(out, record.waits, Record::kMostWaits);
  write(out, record.lost, Record::kMostLost);
}

bool read(Reader& in, Record& record) {
  std::uint8_t flags = 0;
  in.get(record.version).get(record.round).get(record.called).get(flags);
  if (flags > 3) return false;
  record.left = (flags & 1) != 0;
  if ((flags & 2) != 0) in.get(record.turn.emplace());
  return read(in, record.waits, Record::kMostWaits) && read(in, record.lost, Record::kMostLost);
}

}  // namespace

bool Proposal::better_than(const Proposal& other) const {
  const auto key = [](const Proposal& each) {
    return std::tuple(order(each.error.code), -static_cast<std::int64_t>(each.error.members.size()),
                      each.proposer);
  };
  return key(*this) < key(other);
}

std::string News::encode() const {
  Writer out;
  out.put(round).put(static_cast<std::uint16_t>(entries.size()));
  for (const Entry& each : entries) write(out.put(each.rank), each.record);
  out.put(proposal.has_value());
  if (proposal) {
    out.put(proposal->proposer)
        .put(proposal->error.code)
        .put(proposal->error.message.substr(0, Proposal::kMostText));
    write(out, proposal->error.members, Proposal::kMostMembers);
  }
  return out.take();
}

std::optional<News> News::decode(const std::string& data) {
  News news;
  Reader in(data);
  std::uint16_t count = 0;
  in.get(news.round).get(count);
  if (count > kMostEntries) return std::nullopt;
  news.entries.resize(count);
  for (Entry& each : news.entries) {
    if (!read(in.get(each.rank), each.record)) return std::nullopt;
  }
  std::uint8_t proposed = 0;
  in.get(proposed);
  if (proposed > 1) return std::nullopt;
  if (proposed == 1) {
    Proposal& proposal = news.proposal.emplace();
    in.get(proposal.proposer).get(proposal.error.code).get(proposal.error.message);
    if (!read(in, proposal.error.members, Proposal::kMostMembers)) return std::nullopt;
    if (order(proposal.error.code) > 5) return std::nullopt;
  }
  return in.whole() ? std::optional(std::move(news)) : std::nullopt;
}

}  // namespace passing::judge

/* The slot state machine of docs/protocol.md section 4.2, and what it says in answer. The same rules as in
 * dataplane/aggregator.cc; a differential test compares the two. */
#ifndef PASSING_DATAPLANE_BPF_AGGREGATE_H
#define PASSING_DATAPLANE_BPF_AGGREGATE_H

#include "packet.h"

enum send { SEND_NOTHING, SEND_SENDER, SEND_EVERYONE };

/* What is known of the packet at hand, one for each processor. It is kept in a map for the verifier's sake:
 * what comes back from there it knows nothing about, so the paths of both address families, all types and all
 * steps are one before the long loops, which it then walks once and not thirty times. */
struct work {
  struct found found;
  uint32_t type; /* of the packet */
  uint32_t words;
  uint32_t which; /* version of the slot */
  uint32_t step;
  struct answer {
    uint32_t send;
    uint32_t type;
    uint32_t tag;
    uint32_t word;
    uint32_t count;
    uint32_t flags;
    uint32_t state; /* of the slot, for reports; so are these: */
    uint32_t first;
    uint32_t second;
    uint32_t lane;
    uint64_t bitmap;
  } answer;
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, uint32_t);
  __type(value, struct work);
} works SEC(".maps");

/* Pointers cannot be kept in a map. */
struct target {
  const struct passing_bpf_job* job;
  const uint32_t* sums;
};

/* What the state machine has decided. */
enum step {
  STEP_WRONG_SEQUENCE,
  STEP_WRONG_COUNT,
  STEP_DUPLICATE,
  STEP_STATUS,
  STEP_NOTICE_AGAIN,
  STEP_RESULT_AGAIN,
  STEP_POISON,
  STEP_OPEN,
  STEP_ADD,
};

INLINE enum step decide(const struct passing_bpf_version* version, const struct passing_bpf_job* job,
                        uint32_t type, uint32_t sequence, uint32_t tag, uint32_t words, uint64_t bit) {
  if (type == PASSING_STATUS_REQUEST) return STEP_STATUS;
  const uint32_t lap = 2 * job->slots;
  if (version->installation != job->installation)
    return sequence - job->first_sequence < lap ? STEP_OPEN : STEP_WRONG_SEQUENCE;
  const int poisoned = version->poison != PASSING_SLOT_ABSENT;
  const int complete = version->bitmap == job->everyone;
  if (sequence != version->sequence)
    return sequence == version->sequence + lap && complete && !poisoned ? STEP_OPEN : STEP_WRONG_SEQUENCE;
  if (poisoned) return STEP_NOTICE_AGAIN;
  if (complete) return STEP_RESULT_AGAIN;
  if (type == PASSING_ABORT || tag != version->tag) return STEP_POISON;
  if ((version->bitmap & bit) != 0) return STEP_DUPLICATE;
  return words == version->count ? STEP_ADD : STEP_WRONG_COUNT;
}

/* Adds `words` words of payload to the sums. In strides of eight with one check each: the verifier walks
 * every stride, and a check per word would cost a third of the time. */
INLINE void add_payload(uint32_t* total, uint32_t words, const void* payload, const void* end) {
  const uint32_t strides = words / 8;
#pragma clang loop unroll(disable)
  for (uint32_t i = 0; i < settings.elements / 8; ++i) {
    if (i >= strides) break;
    const uint32_t* from = payload + 32 * i;
    if ((const void*)(from + 8) > end) break;
    uint32_t* to = total + 8 * i;
#pragma unroll
    for (int k = 0; k < 8; ++k) to[k] += from[k];
  }
  const uint32_t rest = words & ~7U;
#pragma clang loop unroll(disable)
  for (uint32_t k = 0; k < 7; ++k) {
    uint32_t at = rest + k;
    SAME_REGISTER(at);
    if (at >= words || at >= settings.elements) break;
    const uint32_t* from = payload + 4 * at;
    if ((const void*)(from + 1) > end) break;
    total[at] += *from;
  }
}

/* The same for the first contribution, which only has to be kept: two words at a time. */
INLINE void copy_payload(uint32_t* total, uint32_t words, const void* payload, const void* end) {
  const uint32_t strides = words / 8;
#pragma clang loop unroll(disable)
  for (uint32_t i = 0; i < settings.elements / 8; ++i) {
    if (i >= strides) break;
    const uint64_t* from = payload + 32 * i;
    if ((const void*)(from + 4) > end) break;
    uint64_t* to = (uint64_t*)(total + 8 * i);
#pragma unroll
    for (int k = 0; k < 4; ++k) to[k] = from[k];
  }
  const uint32_t rest = words & ~7U;
#pragma clang loop unroll(disable)
  for (uint32_t k = 0; k < 7; ++k) {
    uint32_t at = rest + k;
    SAME_REGISTER(at);
    if (at >= words || at >= settings.elements) break;
    const uint32_t* from = payload + 4 * at;
    if ((const void*)(from + 1) > end) break;
    total[at] = *from;
  }
}

/* Section 2.5: the way to a member is where its packets come from. */
INLINE void learn(struct passing_bpf_place* place, const struct passing_bpf_job* job, uint32_t lane,
                  uint32_t interface, const struct ethhdr* ethernet) {
  uint64_t mac = 0;
  __builtin_memcpy(&mac, ethernet->h_source, ETH_ALEN);
  if (place->interface == interface && place->mac == mac) return;
  const uint32_t tally_at = job->index;
  struct passing_bpf_tally* tally = bpf_map_lookup_elem(&tallies, &tally_at);
  if (tally == 0) return;
  place->mac = mac;
  place->interface = interface;
  /* Of two processors that learn members behind one port at once, at least one sees both: what each has
   * written is there before it counts. */
  __sync_fetch_and_add(&tally->crowd, 0);
  uint32_t crowd = 0;
#pragma clang loop unroll(disable)
  for (uint32_t m = 0; m < PASSING_MAX_MEMBERS; ++m) {
    if (m >= job->members) break;
    const uint32_t index = job->first_place + m * job->lanes + lane;
    const struct passing_bpf_place* other = bpf_map_lookup_elem(&places, &index);
    if (other != 0 && AGAIN(other->interface) == interface) ++crowd;
  }
  /* The maximum of all: whoever is in the way only makes it larger. */
#pragma clang loop unroll(disable)
  for (uint32_t tries = 0; tries < PASSING_MAX_MEMBERS; ++tries) {
    const uint32_t most = AGAIN(tally->crowd);
    if (most >= crowd || __sync_val_compare_and_swap(&tally->crowd, most, crowd) == most) break;
  }
}

/* The counter of the first check that fails (section 2), or PASSING_BPF_COUNTERS. */
INLINE uint32_t admit(const struct passing_header* header, const struct found* found,
                      const struct passing_bpf_job** job, struct passing_bpf_place** place) {
  const uint32_t malformed = check(header, found->length);
  if (malformed < PASSING_BPF_COUNTERS) return malformed;
  const uint32_t number = bpf_ntohl(header->job);
  const struct passing_bpf_job* known = bpf_map_lookup_elem(&jobs, &number);
  if (known == 0) return PASSING_BPF_UNKNOWN_JOB;
  uint64_t key;
  __builtin_memcpy(&key, header->key, sizeof key);
  if (bpf_be64_to_cpu(key) != known->key) return PASSING_BPF_WRONG_KEY;
  if (bpf_ntohl(header->epoch) != known->epoch) return PASSING_BPF_WRONG_EPOCH;
  const uint32_t member = bpf_ntohs(header->member);
  if (member >= known->members) return PASSING_BPF_BAD_MEMBER;
  if (header->lane >= known->lanes || header->lane % settings.ports != found->door)
    return PASSING_BPF_BAD_LANE;
  const uint32_t index = known->first_place + member * known->lanes + header->lane;
  struct passing_bpf_place* pinned = bpf_map_lookup_elem(&places, &index);
  if (pinned == 0 || pinned->port != found->port || !same_address(pinned->ip, found->ip))
    return PASSING_BPF_WRONG_SOURCE;
  *job = known;
  *place = pinned;
  return PASSING_BPF_COUNTERS;
}

/* What to answer after a step; counts it. */
INLINE void conclude(struct answer* answer, uint32_t step, uint32_t type, int finished,
                     const struct passing_bpf_job* job, struct passing_bpf_counters* all) {
  answer->flags = 0;
  if (step == STEP_WRONG_SEQUENCE) return count(all, PASSING_BPF_WRONG_SEQUENCE, 1);
  if (step == STEP_WRONG_COUNT) return count(all, PASSING_BPF_WRONG_COUNT, 1);
  if (step == STEP_DUPLICATE) return count(all, PASSING_BPF_DUPLICATES, 1);
  if (step == STEP_STATUS) {
    count(all, PASSING_BPF_STATUS_ANSWERS, 1);
    answer->send = SEND_SENDER;
    answer->type = PASSING_STATUS;
  } else if (step == STEP_NOTICE_AGAIN) {
    count(all, PASSING_BPF_NOTICES_AGAIN, 1);
    answer->send = SEND_SENDER;
    answer->type = PASSING_NOTICE;
    answer->flags = PASSING_FLAG_AGAIN;
  } else if (step == STEP_RESULT_AGAIN) {
    count(all, PASSING_BPF_RESULTS_AGAIN, 1);
    answer->send = SEND_SENDER;
    answer->type = PASSING_RESULT;
    answer->flags = PASSING_FLAG_AGAIN;
  } else if (step == STEP_POISON || type == PASSING_ABORT) {
    count(all, PASSING_BPF_NOTICES, 1);
    answer->send = SEND_EVERYONE;
    answer->type = PASSING_NOTICE;
  } else {
    count(all, PASSING_BPF_ADDS, 1);
    if (!finished) return;
    count(all, PASSING_BPF_RESULTS, 1);
    const uint32_t index = job->index;
    struct passing_bpf_tally* tally = bpf_map_lookup_elem(&tallies, &index);
    if (tally != 0) __sync_fetch_and_add(&tally->completed, 1);
    answer->send = SEND_EVERYONE;
    answer->type = PASSING_RESULT;
  }
  if (answer->type != PASSING_RESULT) {
    answer->word = PASSING_WORD_NONE;
    answer->count = PASSING_REPORT_WORDS;
  }
  const uint64_t copies = answer->send == SEND_EVERYONE ? job->members : 1;
  count(all, PASSING_BPF_PACKETS_OUT, copies);
  count(all, PASSING_BPF_BYTES_OUT, copies * (PASSING_HEADER_BYTES + 4 * (uint64_t)answer->count));
}

/* Handles a packet whose header is within the frame; so is its payload, if it is a contribution. */
INLINE void aggregate(void* data, void* end, struct work* work, uint32_t interface,
                      struct passing_bpf_counters* all, struct target* target) {
  struct answer* answer = &work->answer;
  answer->send = SEND_NOTHING;
  const struct passing_header* header = data + udp_of(&work->found) + sizeof(struct udphdr);
  if (work->found.length < PASSING_HEADER_BYTES || (void*)(header + 1) > end)
    return count(all, PASSING_BPF_TOO_SHORT, 1);
  const struct passing_bpf_job* job = 0;
  struct passing_bpf_place* place = 0;
  const uint32_t refused = admit(header, &work->found, &job, &place);
  if (refused < PASSING_BPF_COUNTERS) return count(all, refused, 1);
  if (job == 0 || place == 0) return; /* for the verifier */

  /* Section 4.1: slot and version follow from the sequence, as 2S divides F and 2^32. */
  const uint32_t sequence = bpf_ntohl(header->sequence);
  const uint32_t lane = header->lane;
  const uint32_t in_lap = sequence & (2 * job->slots - 1);
  work->which = in_lap >= job->slots;
  const uint32_t slot_at = job->first_slot + lane * job->slots + (in_lap & (job->slots - 1));
  struct slot* slot = bpf_map_lookup_elem(&slots, &slot_at);
  const uint32_t sums_at = 2 * slot_at + AGAIN(work->which);
  uint32_t* total = bpf_map_lookup_elem(&sums, &sums_at);
  if (slot == 0 || total == 0) return;
  learn(place, job, lane, interface, data);

  work->type = header->type;
  work->words = bpf_ntohs(header->count);
  const uint32_t tag = bpf_ntohl(header->tag);
  const uint32_t word = bpf_ntohs(header->word);
  const uint32_t member = bpf_ntohs(header->member);
  const uint64_t bit = 1ULL << (member & 63);
  if (AGAIN(work->type) != PASSING_STATUS_REQUEST && (header->flags & PASSING_FLAG_AGAIN) != 0)
    count(all, PASSING_BPF_RETRANSMISSIONS, 1);
  answer->lane = lane;

  /* Under the lock no helper may be called, and there is one way out. */
  struct passing_bpf_version* version = &slot->version[AGAIN(work->which) & 1];
  bpf_spin_lock(&slot->lock);
  work->step = decide(version, job, AGAIN(work->type), sequence, tag, AGAIN(work->words), bit);
  if (AGAIN(work->step) == STEP_OPEN) {
    const int abort = AGAIN(work->type) == PASSING_ABORT;
    version->bitmap = abort ? 0 : bit;
    version->installation = job->installation;
    version->sequence = sequence;
    version->tag = tag;
    version->word = word;
    version->count = AGAIN(work->words);
    version->first = member;
    version->second = abort ? member : 0;
    version->poison = abort ? PASSING_SLOT_ABORTED : PASSING_SLOT_ABSENT;
    copy_payload(total, AGAIN(work->words), header + 1, end); /* of an ABORT there is none */
  } else if (AGAIN(work->step) == STEP_ADD) {
    if (word > version->word) version->word = word;
    version->bitmap |= bit;
    add_payload(total, AGAIN(work->words), header + 1, end);
  } else if (AGAIN(work->step) == STEP_POISON) {
    version->poison = AGAIN(work->type) == PASSING_ABORT ? PASSING_SLOT_ABORTED : PASSING_SLOT_DISAGREEMENT;
    version->second = member;
  }
  const int complete = version->bitmap == job->everyone;
  const int held = version->installation == job->installation && version->sequence == sequence;
  answer->bitmap = held ? version->bitmap : 0;
  answer->tag = held ? version->tag : 0;
  answer->word = version->word;
  answer->count = version->count;
  answer->first = held ? version->first : 0;
  answer->second = held ? version->second : 0;
  answer->state = !held                                    ? PASSING_SLOT_ABSENT
                  : version->poison != PASSING_SLOT_ABSENT ? version->poison
                  : complete                               ? PASSING_SLOT_COMPLETE
                                                           : PASSING_SLOT_FILLING;
  bpf_spin_unlock(&slot->lock);

  /* The sums of a complete version are read without the lock. Nobody opens it for the chunk two laps on
   * before every member has had this result: protocol.md section 9.1. */
  target->job = job;
  target->sums = total;
  conclude(answer, AGAIN(work->step), AGAIN(work->type), complete, job, all);
}

/* Writes headers and, unless it is a result, the report. The frame has its final length. */
INLINE void write_answer(void* data, void* end, const struct work* work) {
  const struct answer* answer = &work->answer;
  const uint32_t udp = udp_of(&work->found);
  struct passing_header* header = data + udp + sizeof(struct udphdr);
  if (data + PASSING_BPF_MOST_HEADERS > end || (void*)(header + 1) > end) return; /* for the verifier */
  turn_round(data, udp, PASSING_HEADER_BYTES + 4 * answer->count);
  header->type = answer->type;
  header->tag = bpf_htonl(answer->tag);
  header->word = bpf_htons(answer->word);
  header->count = bpf_htons(answer->count);
  header->flags = answer->flags;
  struct passing_report* report = (void*)(header + 1);
  if (answer->type == PASSING_RESULT || (void*)(report + 1) > end) return;
  report->bitmap_high = bpf_htonl((uint32_t)(answer->bitmap >> 32));
  report->bitmap_low = bpf_htonl((uint32_t)answer->bitmap);
  report->tag = bpf_htonl(answer->tag);
  report->state = bpf_htonl(answer->state);
  report->members = bpf_htonl(answer->first << 16 | answer->second);
}

INLINE const struct passing_bpf_place* place_of(const struct passing_bpf_job* job, uint32_t member,
                                                uint32_t lane) {
  if ((job->departed >> (member & 63) & 1) != 0) return 0;
  const uint32_t index = job->first_place + member * job->lanes + lane;
  const struct passing_bpf_place* place = bpf_map_lookup_elem(&places, &index);
  return place != 0 && place->interface != 0 ? place : 0;
}

#endif

/* The state of the switch in the kernel. The loader sizes these maps before the programs are loaded. */
#ifndef PASSING_DATAPLANE_BPF_MAPS_H
#define PASSING_DATAPLANE_BPF_MAPS_H

#include <linux/bpf.h>
/* first linux/bpf.h */
#include <bpf/bpf_helpers.h>

#include "constants.h"

const volatile struct passing_bpf_settings settings;

/* Installed jobs, by number. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, PASSING_BPF_MOST_JOBS);
  __type(key, uint32_t);
  __type(value, struct passing_bpf_job);
} jobs SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, PASSING_BPF_MOST_JOBS);
  __type(key, uint32_t);
  __type(value, struct passing_bpf_tally);
} tallies SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, PASSING_BPF_MOST_PLACES);
  __type(key, uint32_t);
  __type(value, struct passing_bpf_place);
} places SEC(".maps");

/* One lock for both versions: a packet belongs to one of them, and contention is between members only. */
struct slot {
  struct bpf_spin_lock lock;
  struct passing_bpf_version version[2];
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, uint32_t);
  __type(value, struct slot);
} slots SEC(".maps");

/* The sums of a version: E words, which only the loader knows. At 2 x slot + version. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(uint32_t));
  __uint(value_size, sizeof(uint32_t));
} sums SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, uint32_t);
  __type(value, struct passing_bpf_counters);
} counters SEC(".maps");

/* XDP only. A frame goes to all ports of a device map at once; member by member is not possible. So there is
 * one such map for every number of members behind one port: fans[n - 1] has each port n times, and a program
 * at the way out (to_member) addresses the copies. */
struct fan {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, PASSING_BPF_MOST_PORTS);
  __uint(key_size, sizeof(uint32_t));
  __uint(value_size, sizeof(struct bpf_devmap_val));
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, PASSING_MAX_MEMBERS);
  __type(key, uint32_t);
  __array(values, struct fan);
} fans SEC(".maps");

/* Whom the last copy on a port was for, and of which chunk it was. Copies of a frame leave a port one after
 * the other on one processor. */
struct copy {
  uint32_t installation; /* a job begins at the same sequence again */
  uint32_t sequence;
  uint32_t lane_and_type;
  uint32_t next; /* member to begin with */
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(max_entries, PASSING_BPF_MOST_PORTS);
  __type(key, uint32_t);
  __type(value, struct copy);
} copies SEC(".maps");

#endif

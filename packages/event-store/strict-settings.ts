/**
 * Settings of every statement. Without them, a profile or user of ClickHouse may make a statement succeed after half of its
 * work: 200 for an insert that stored nothing, a look-back that read half of the stored rows. With them, a statement
 * that exceeds a limit fails.
 */
export const strictSettings = {
  timeout_overflow_mode: 'throw',
  timeout_overflow_mode_leaf: 'throw',
  read_overflow_mode: 'throw',
  read_overflow_mode_leaf: 'throw',
  set_overflow_mode: 'throw',
  join_overflow_mode: 'throw',
  group_by_overflow_mode: 'throw',
  sort_overflow_mode: 'throw',
  distinct_overflow_mode: 'throw',
  transfer_overflow_mode: 'throw',
  result_overflow_mode: 'throw',
  limit: '0',
  offset: '0',
} as const

/**
 * Sent with every statement, so that no profile or user of a ClickHouse makes it do half the work and call that a success
 * (200 for an insert that stored nothing, a look-back that saw half of what is stored). What is too much is refused.
 */
export const wholeAnswers = {
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

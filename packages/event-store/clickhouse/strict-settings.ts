/** A statement that exceeds a limit fails, instead of succeeding with a part of its result. */
const limits = {
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
  // Without this setting, a cancelled statement returns the part of the result that it has computed.
  partial_result_on_first_cancel: '0',
} as const

/** Rows that a statement reads from its tables. */
const rowsRead = {
  additional_table_filters: '{}',
  additional_result_filter: '',
  final: '0',
  apply_deleted_mask: '1',
  apply_mutations_on_fly: '0',
  // With several replicas, each would return only a part of the rows.
  allow_experimental_parallel_reading_from_replicas: '0',
  // A cached result contains events of an earlier time, or other rows of an external table.
  use_query_cache: '0',
  // Statements with another filter left wrong entries in several versions, so that later statements skipped rows
  // (https://github.com/ClickHouse/ClickHouse/issues/104781).
  use_query_condition_cache: '0',
} as const

/** Settings that change the meaning of SQL. */
const semantics = {
  // `compatibility` resets settings to the defaults of an older version. It comes first, so that the settings below
  // prevail.
  compatibility: '',
  dialect: 'clickhouse',
  allow_experimental_analyzer: '1',
  aggregate_functions_null_for_empty: '0',
  empty_result_for_aggregation_by_empty_set: '0',
  empty_result_for_aggregation_by_constant_keys_on_empty_set: '1',
  group_by_use_nulls: '0',
  totals_mode: 'after_having_exclusive',
  join_use_nulls: '0',
  join_default_strictness: 'ALL',
  transform_null_in: '0',
  prefer_column_name_to_alias: '0',
  cast_keep_nullable: '0',
  data_type_default_nullable: '0',
  session_timezone: '',
  enable_extended_results_for_datetime_functions: '0',
  date_time_overflow_behavior: 'ignore',
  // The default only since 26.7. The faster algorithm reads '1.5008753E7' as 15008753.000000002.
  precise_float_parsing: '1',
} as const

/** How a result is written. */
const output = {
  // Not the default of every version: 64-bit integers and floats are numbers, times are ISO texts.
  output_format_json_quote_64bit_integers: '0',
  date_time_output_format: 'iso',
  output_format_json_quote_64bit_floats: '0',
  output_format_json_quote_decimals: '0',
  output_format_json_quote_denormals: '0',
  output_format_json_map_as_array_of_tuples: '0',
  output_format_json_named_tuples_as_objects: '1',
  output_format_json_validate_utf8: '0',
  // A header every 100 ms would exceed what HTTP clients read.
  send_progress_in_http_headers: '0',
} as const

/**
 * Settings of every statement. They are the settings by which a profile or user of ClickHouse could change an answer or
 * an insert, each with the value that the statements are written for. They are ClickHouse's own defaults, except for
 * the few that are marked. Settings that make a statement slower or fail are left to the server: limits, threads,
 * memory, algorithms, `force_…`.
 *
 * The settings were found among the 1,721 settings of ClickHouse 26.7: by reading what each of them does, and by
 * changing those that concern local tables, JSON and inserts, and comparing answers and stored rows. The newest of them
 * exist since 25.7, so ClickHouse must be that new: a server refuses a setting that it does not know.
 */
export const strictSettings = { ...semantics, ...limits, ...rowsRead, ...output } as const

/** Settings of statements that read posted rows. A row is stored as it was sent, or the statement fails. */
export const postedRowSettings = {
  input_format_allow_errors_num: '0',
  input_format_allow_errors_ratio: '0',
  // Not the default. A row of a newer build is refused, because this build would store it without the field that it
  // does not know.
  input_format_skip_unknown_fields: '0',
  input_format_null_as_default: '1',
  input_format_defaults_for_omitted_fields: '1',
  input_format_force_null_for_omitted_fields: '0',
  input_format_import_nested_json: '0',
  input_format_json_empty_as_default: '0',
  input_format_json_map_as_array_of_tuples: '0',
  input_format_json_max_depth: '1000',
  input_format_json_read_arrays_as_strings: '1',
  input_format_json_read_bools_as_numbers: '1',
  input_format_json_read_bools_as_strings: '1',
  input_format_json_read_numbers_as_strings: '1',
  input_format_json_read_objects_as_strings: '1',
  input_format_json_throw_on_bad_escape_sequence: '1',
} as const

/** Settings of statements that drop data of any size. By default, ClickHouse refuses to drop more than 50 GB. */
export const dropSettings = { max_table_size_to_drop: '0', max_partition_size_to_drop: '0' } as const

/**
 * Settings of statements over the shards of a cluster. The server that gets the statement sends them to the other
 * servers.
 */
export const shardSettings = {
  // Not the default. A nested SELECT is evaluated once over all shards, and its result is sent to each of them.
  distributed_product_mode: 'global',
  // An answer without the events of an unavailable server would be wrong.
  skip_unavailable_shards: '0',
  distributed_group_by_no_merge: '0',
  optimize_skip_unused_shards: '0',
} as const

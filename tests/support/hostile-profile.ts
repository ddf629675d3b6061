import type { postedRowSettings, strictSettings } from '@sluice/event-store/clickhouse/strict-settings'

type Pinned = keyof typeof strictSettings | keyof typeof postedRowSettings | keyof typeof insertSettings

/**
 * Further settings of an insert (packages/event-store/insert/event-inserter.ts), with values that would change its
 * result.
 */
const insertSettings = {
  async_insert: 1,
  insert_deduplicate: 1,
  insert_deduplication_token: 'the same for all',
  insert_null_as_default: 0,
  optimize_on_insert: 1,
  throw_on_max_partitions_per_insert_block: 1,
} as const

/**
 * A profile with other values for all settings that a statement sets itself. If a statement does not set one of them,
 * it returns another result, stores other rows, or fails. The limits that abort statements are not included.
 */
export const hostileProfile: Readonly<Record<Exclude<Pinned, Untried>, string | number>> = {
  ...insertSettings,
  compatibility: '23.8',
  allow_experimental_analyzer: 0,
  aggregate_functions_null_for_empty: 1,
  empty_result_for_aggregation_by_empty_set: 1,
  empty_result_for_aggregation_by_constant_keys_on_empty_set: 0,
  group_by_use_nulls: 1,
  totals_mode: 'before_having',
  join_use_nulls: 1,
  join_default_strictness: 'ANY',
  transform_null_in: 1,
  prefer_column_name_to_alias: 1,
  cast_keep_nullable: 1,
  data_type_default_nullable: 1,
  session_timezone: 'Asia/Kathmandu',
  enable_extended_results_for_datetime_functions: 1,
  date_time_overflow_behavior: 'throw',
  precise_float_parsing: 0,
  limit: 3,
  offset: 2,
  partial_result_on_first_cancel: 1,
  additional_table_filters: "{'events': 'event_type != ''page_view'''}",
  additional_result_filter: '1 = 0',
  final: 1,
  apply_deleted_mask: 0,
  apply_mutations_on_fly: 1,
  allow_experimental_parallel_reading_from_replicas: 1,
  use_query_cache: 1,
  use_query_condition_cache: 1,
  output_format_json_quote_64bit_integers: 1,
  date_time_output_format: 'unix_timestamp',
  output_format_json_quote_64bit_floats: 1,
  output_format_json_quote_decimals: 1,
  output_format_json_quote_denormals: 1,
  output_format_json_map_as_array_of_tuples: 1,
  output_format_json_named_tuples_as_objects: 0,
  output_format_json_validate_utf8: 1,
  send_progress_in_http_headers: 1,
  input_format_allow_errors_num: 1_000,
  input_format_allow_errors_ratio: 1,
  input_format_skip_unknown_fields: 1,
  input_format_null_as_default: 0,
  input_format_defaults_for_omitted_fields: 0,
  input_format_force_null_for_omitted_fields: 1,
  input_format_import_nested_json: 1,
  input_format_json_empty_as_default: 1,
  input_format_json_map_as_array_of_tuples: 1,
  input_format_json_max_depth: 1,
  input_format_json_read_arrays_as_strings: 0,
  input_format_json_read_bools_as_numbers: 0,
  input_format_json_read_bools_as_strings: 0,
  input_format_json_read_numbers_as_strings: 0,
  input_format_json_read_objects_as_strings: 0,
  input_format_json_throw_on_bad_escape_sequence: 0,
}

/**
 * Settings that abort statements, which strict-settings.test.ts tests one by one, and a dialect in which `SET` could
 * not be used to go back.
 */
type Untried = 'dialect' | `${string}_overflow_mode` | `${string}_overflow_mode_leaf`

import type { ObservedProperty } from '@sluice/contracts/observed-properties'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import {
  longValues,
  type ObservedPropertiesSpec,
  observedPropertiesStatement,
  type PropertyValueRow,
} from './observed-properties-statement.ts'

/**
 * Lists the most frequent properties and values of a site's recent events (docs/http-interface.md#observed-properties).
 */
export async function listObservedProperties(
  spec: ObservedPropertiesSpec,
  runner: QueryRunner,
): Promise<ObservedProperty[]> {
  const { rows } = await runner.query<PropertyValueRow>(observedPropertiesStatement(spec))
  const properties: ObservedProperty[] = []
  // The rows of one property follow each other.
  for (const { name, total, value, events } of rows) {
    if (properties.at(-1)?.name !== name) properties.push({ name, count: total, values: [] })
    if (value !== longValues) properties.at(-1)?.values.push({ value, count: events })
  }
  return properties
}

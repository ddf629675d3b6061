import { test } from '@jest/globals'
import { criteriaSchema, filterSchema } from '@sluice/api/conditions'
import { type Criteria, eventFields, operators } from '@sluice/contracts/conditions'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import { conditionSql } from '@sluice/event-store/conditions'
import { toFieldError } from '@sluice/query/run-analysis'
import { type Block, expectGolden, joinBlocks, lineJson } from './golden.ts'
import { refusalText } from './run-operation.ts'

const values: Readonly<Record<string, unknown>> = {
  in: ['de', 'A', "it's"],
  not_in: ['x'],
  exists: undefined,
  not_exists: undefined,
  greater_than: 9.5,
  greater_than_or_equal: '1e3',
  less_than: '-.5',
  less_than_or_equal: 0,
  matches: '^De+$',
}

/** The SQL of conditions that the schema has read, as it reads those of a request. */
function filterBlock(heading: string, conditions: readonly unknown[]): Block {
  const read = filterSchema.validate(conditions, { convert: false })
  if (read.error) throw read.error
  const { sql, params, userFields } = conditionSql(read.value, { prefix: 'filter' })
  return { heading, text: `${sql}\nparameters: ${lineJson(params)}\nfields of users: ${lineJson(userFields)}` }
}

test.each([...eventFields, 'user.plan', 'email', 'properties.plan', 'properties.it’s \\ "x"'])(
  'conditions of %s have the SQL of the golden file for every operator',
  (property) => {
    const blocks = operators.map((operator) => {
      const value = operator in values ? values[operator] : 'De'
      return filterBlock(`${property} ${operator}`, [{ property, operator, ...(value === undefined ? {} : { value }) }])
    })
    expectGolden(`conditions/${property.replaceAll(/[^\w.]/g, '-')}.txt`, joinBlocks(blocks))
  },
)

test('trees of conditions have the SQL of the golden file', () => {
  const plan = { property: 'properties.plan', operator: 'equals', value: 'pro' }
  const country = { property: 'country', operator: 'equals', value: 'straße' }
  const email = { property: 'user.email', operator: 'exists' }
  const tree: Criteria = {
    type: 'or',
    conditions: [
      { property: 'event_type', operator: 'equals', value: 'a' },
      {
        type: 'and',
        conditions: [
          { property: 'email', operator: 'not_exists' },
          { type: 'or', conditions: [{ property: 'path', operator: 'equals', value: '/' }] },
        ],
      },
    ],
  }
  const read = criteriaSchema.validate(tree, { convert: false })
  if (read.error) throw read.error
  const { sql, params, userFields } = conditionSql(read.value, { prefix: 'criteria' })
  expectGolden(
    'conditions/trees.txt',
    joinBlocks([
      filterBlock('no condition', []),
      filterBlock('several conditions', [plan, country, email, { ...email, operator: 'not_exists' }]),
      filterBlock('a tree in a list', [plan, { type: 'or', conditions: [country, email] }]),
      { heading: 'criteria of three levels', text: `${sql}\n${lineJson(params)}\n${lineJson(userFields)}` },
      filterBlock('a long list, in several parameters', [
        {
          property: 'url',
          operator: 'in',
          value: Array.from({ length: 5 }, (_, n) => `${n}${'é'.repeat(2_000)}`).flatMap((text) => [text, `${text}b`]),
        },
      ]),
    ]).replaceAll(/é{2000}/g, '<é 2000 times>'),
  )
})

const patterns = ['^/docs', '[]a]', '[^]a]', '(?s)a.b', '(?i)abc', 'ü+', '😀?x', 'a|b', '\\d{3}', '\\p{Greek}']

test('patterns have the SQL of the golden file', () => {
  expectGolden(
    'conditions/patterns.txt',
    joinBlocks(patterns.map((value) => filterBlock(value, [{ property: 'url', operator: 'matches', value }]))),
  )
})

test('a pattern that ClickHouse refuses is named as in the golden file', () => {
  const condition: Criteria = {
    type: 'and',
    conditions: [
      { property: 'url', operator: 'matches', value: '^a' },
      { type: 'or', conditions: [{ property: 'url', operator: 'matches', value: 'ü+' }] },
    ],
  }
  const refused = (internal: string): ClickHouseError => new ClickHouseError(427, internal)
  expectGolden(
    'conditions/refused-patterns.txt',
    joinBlocks([
      {
        heading: 'the first pattern',
        text: refusalText(toFieldError(refused('re2: ^a, bad'), { conditions: { filter: condition } })),
      },
      {
        heading: 'the nested pattern',
        text: refusalText(toFieldError(refused('re2: (?i:)ü+, bad'), { conditions: { criteria: condition } })),
      },
      {
        heading: 'another pattern',
        text: refusalText(toFieldError(refused('re2: x, bad'), { conditions: { criteria: condition } })),
      },
    ]),
  )
})

import { expect, it } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import {
  criteriaSentence,
  emptyCondition,
  emptyCriteria,
  parseDraft,
  replaced,
  sentCriteria,
  valueFor,
} from './criteria.ts'

const german = { property: 'country', operator: 'in', value: ['DE', 'FR'] } as const
const pro = { property: 'properties.plan', operator: 'equals', value: 'pro' } as const
const criteria = {
  type: 'and',
  scope: 'user',
  conditions: [
    pro,
    {
      type: 'or',
      conditions: [
        { ...german, value: [...german.value] },
        { property: 'user_id', operator: 'exists' },
      ],
    },
  ],
} satisfies Criteria

it('an item is replaced at its place, and a group goes with its last item', () => {
  const changed = replaced(criteria, [1, 0], { ...pro, value: 'free' })
  expect(changed.conditions[1]).toMatchObject({ conditions: [{ value: 'free' }, { property: 'user_id' }] })
  expect(replaced(replaced(criteria, [1, 0]), [1, 0]).conditions).toEqual([pro])
  expect(replaced(criteria, [0], pro, emptyCondition).conditions).toHaveLength(3)
})

it('criteria are sent once every condition is complete, with the prefix of properties', () => {
  expect(sentCriteria(emptyCriteria)).toBeUndefined()
  expect(sentCriteria(replaced(criteria, [0], { ...pro, value: '' }))).toBeUndefined()
  expect(
    sentCriteria(replaced(criteria, [0], { property: 'theme', operator: 'equals', value: 'dark' }))?.conditions[0],
  ).toEqual({
    property: 'properties.theme',
    operator: 'equals',
    value: 'dark',
  })
  expect(sentCriteria(criteria)).toEqual(criteria)
})

it('values follow the operator', () => {
  expect(valueFor('in', 'DE')).toEqual(['DE'])
  expect(valueFor('equals', ['DE', 'FR'])).toBe('DE')
  expect(valueFor('in', '')).toEqual([])
})

it('criteria are told in words', () => {
  expect(criteriaSentence(criteria)).toBe('over time: plan is pro and (country is Germany or France or user exists)')
})

it('drafts come back from the address, and nothing else does', () => {
  expect(parseDraft(JSON.stringify(criteria))).toEqual(criteria)
  const deep = {
    type: 'and',
    conditions: [{ type: 'and', conditions: [{ type: 'and', conditions: [{ type: 'or', conditions: [] }] }] }],
  }
  for (const text of ['', '1', 'null', '{}', '{"type":"and","conditions":[1]}', JSON.stringify(deep)]) {
    expect(parseDraft(text)).toBeUndefined()
  }
})

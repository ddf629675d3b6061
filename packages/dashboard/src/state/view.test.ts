import { beforeAll, describe, expect, test } from '@jest/globals'
import { type Condition, eventFields, isOneOf, numberOperators, operators } from '@sluice/contracts/conditions'
import { timeUnits } from '@sluice/contracts/stats'
import { seededRandom } from '../../../../tests/chaos/random.ts'
import { filtersAfterClick, formatCondition, isValueOf, listOperators, parseCondition } from './conditions.ts'
import { presets } from './range.ts'
import { loadTemporal } from './temporal.ts'
import { defaultView, formatView, headlineMetrics, parseView, type View } from './view.ts'

beforeAll(loadTemporal)

const random = seededRandom(17)
const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
// eslint-disable-next-line @typescript-eslint/no-misused-spread -- code points are meant
const characters = [...'ab:,\\/&=?#%+ .\'"<>é日\u202e\u{1F600}']
const text = (min = 0) => Array.from({ length: min + Math.floor(random() * 6) }, () => pick(characters)).join('')

function randomCondition(): Condition {
  const property = random() < 0.4 ? `properties.${text(1)}` : pick(eventFields)
  const operator = pick(operators)
  if (operator === 'exists' || operator === 'not_exists') return { property, operator }
  if (isOneOf(listOperators, operator))
    return { property, operator, value: Array.from({ length: 1 + Math.floor(random() * 3) }, () => text()) }
  if (isOneOf(numberOperators, operator)) return { property, operator, value: pick(['0', '-1.5', '1e3', '+7']) }
  let value = text()
  while (!isValueOf(operator, value)) value = text()
  return { property, operator, value }
}

const randomDays = () => {
  const day = () =>
    new Date(Date.UTC(2000 + Math.floor(random() * 40), 0, Math.floor(random() * 365))).toISOString().slice(0, 10)
  const [from = '', to = ''] = [day(), day()].sort()
  return random() < 0.5 ? { from, to } : { from: `${from}T00:10`, to: `${to}T23:50` }
}

const randomView = (): View => ({
  range: random() < 0.3 ? randomDays() : pick(presets),
  compare: random() < 0.3 ? randomDays() : pick(['none', 'previous', 'year']),
  ...(random() < 0.5 ? { zone: pick(['Europe/Berlin', 'Asia/Kolkata', 'UTC', 'America/New_York']) } : {}),
  ...(random() < 0.5 ? { env: pick(['prod', 'dev', 'all'] as const) } : {}),
  metric: pick(headlineMetrics),
  ...(random() < 0.5 ? { by: pick(timeUnits) } : {}),
  filters: Array.from({ length: Math.floor(random() * 4) }, randomCondition),
  exact: random() < 0.5,
})

describe('a view', () => {
  test.each(['path:greater_than:x', 'properties.price:less_than:', 'path:matches:(', 'path:matches:+'])(
    'names the filter %s, which the service would refuse',
    (f) => {
      const { view, problems } = parseView(new URLSearchParams([['f', f]]))
      expect(view.filters).toEqual([])
      expect(problems).toEqual([{ parameter: 'f', value: f }])
    },
  )

  test('comes back from its address, whatever its filters hold', () => {
    for (let at = 0; at < 5_000; at++) {
      const view = randomView()
      const address = new URL(`http://x/?${formatView(view).toString()}`)
      expect(parseView(address.searchParams)).toStrictEqual({ view, problems: [] })
    }
  })

  test('is the default one without parameters, and has no parameters then', () => {
    expect(parseView(new URLSearchParams())).toStrictEqual({ view: defaultView, problems: [] })
    expect(formatView(defaultView).toString()).toBe('')
  })

  test('reads the address of the design', () => {
    const address =
      'range=28d&compare=previous&zone=Europe/Berlin&env=prod&metric=visitors&by=day&f=country:in:DE,FR&f=path:starts_with:/blog'
    expect(parseView(new URLSearchParams(address)).view).toStrictEqual({
      range: '28d',
      compare: 'previous',
      zone: 'Europe/Berlin',
      env: 'prod',
      metric: 'visitors',
      by: 'day',
      filters: [
        { property: 'country', operator: 'in', value: ['DE', 'FR'] },
        { property: 'path', operator: 'starts_with', value: '/blog' },
      ],
      exact: false,
    })
  })

  test('names what it can’t understand, and goes on without', () => {
    const wrong: [string, string][] = [
      ['range', 'forever'],
      ['range', '2026-02-30..2026-03-01'],
      ['range', '2026-03-02..2026-03-01'],
      ['range', '2026-03-01..2026-03-02T10:00'],
      ['compare', 'both'],
      ['zone', 'Mars/Base'],
      ['zone', '+02:00'],
      ['env', 'test'],
      ['metric', 'clicks'],
      ['by', 'year'],
      ['exact', 'yes'],
      ['f', 'country'],
      ['f', 'nothing:equals:x'],
      ['f', 'country:like:x'],
      ['f', 'country:equals'],
      ['f', 'country:exists:x'],
    ]
    for (const [parameter, value] of wrong) {
      expect(parseView(new URLSearchParams([[parameter, value]]))).toStrictEqual({
        view: defaultView,
        problems: [{ parameter, value }],
      })
    }
  })

  test('names a time zone as written', () => {
    for (const zone of ['Asia/Calcutta', 'US/Pacific', 'EST']) {
      const { view, problems } = parseView(new URLSearchParams({ zone }))
      expect({ zone: view.zone, problems }).toStrictEqual({ zone, problems: [] })
    }
  })

  test('keeps the parameters of a page', () => {
    const search = formatView({ ...defaultView, range: '7d' }, new URLSearchParams('open=wh_1&range=28d'))
    expect(search.toString()).toBe('range=7d&open=wh_1')
  })
})

describe('a condition in the address', () => {
  test('any text is a condition that comes back, or none', () => {
    for (let at = 0; at < 5_000; at++) {
      const condition = parseCondition(`${text()}:${pick([...operators, text()])}:${text()}`)
      if (condition !== undefined) expect(parseCondition(formatCondition(condition))).toStrictEqual(condition)
    }
  })
})

describe('a click on a value', () => {
  const click = (filters: Condition[], value: string, how: 'is' | 'is_not' | 'add') =>
    filtersAfterClick(filters, 'country', value, how).map(formatCondition)
  const german: Condition = { property: 'country', operator: 'equals', value: 'DE' }
  const both: Condition = { property: 'country', operator: 'in', value: ['DE', 'FR'] }

  test('chooses it, and another one instead', () => {
    expect(click([], 'DE', 'is')).toStrictEqual(['country:equals:DE'])
    expect(click([german], 'FR', 'is')).toStrictEqual(['country:equals:FR'])
    expect(click([both], 'FR', 'is')).toStrictEqual(['country:equals:FR'])
  })

  test('again removes it', () => {
    expect(click([german], 'DE', 'is')).toStrictEqual([])
    expect(click([both], 'DE', 'add')).toStrictEqual(['country:equals:FR'])
  })

  test('with Shift adds it, with Alt excludes it', () => {
    expect(click([german], 'FR', 'add')).toStrictEqual(['country:in:DE,FR'])
    expect(click([], 'DE', 'is_not')).toStrictEqual(['country:not_equals:DE'])
    expect(click([german], 'DE', 'is_not')).toStrictEqual(['country:not_equals:DE'])
    expect(click([german], 'FR', 'is_not')).toStrictEqual(['country:equals:DE', 'country:not_equals:FR'])
  })

  test('on an absent value asks for its absence', () => {
    expect(click([], '', 'is')).toStrictEqual(['country:not_exists'])
    expect(click([], '', 'is_not')).toStrictEqual(['country:exists'])
    expect(filtersAfterClick([{ property: 'country', operator: 'not_exists' }], 'country', '', 'is')).toStrictEqual([])
  })

  test('chooses an absent value alone, and excludes it by a condition of its own: no list can contain it', () => {
    const none: Condition = { property: 'country', operator: 'not_exists' }
    expect(click([german], '', 'add')).toStrictEqual(['country:not_exists'])
    expect(click([none], 'DE', 'add')).toStrictEqual(['country:equals:DE'])
    expect(click([{ property: 'country', operator: 'exists' }], 'FR', 'is_not')).toStrictEqual([
      'country:exists',
      'country:not_equals:FR',
    ])
  })

  test('leaves other properties alone', () => {
    const path: Condition = { property: 'path', operator: 'starts_with', value: '/blog' }
    expect(click([path], 'DE', 'is')).toStrictEqual(['path:starts_with:/blog', 'country:equals:DE'])
  })
})

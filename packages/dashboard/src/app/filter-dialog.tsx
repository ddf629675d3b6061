import { useState } from 'preact/hooks'
import {
  type Condition,
  isOneOf,
  numberOperators,
  type Operator,
  propertyOf,
  propertyPrefix,
} from '@sluice/contracts/conditions'
import { useApi } from '../api/hooks.ts'
import { formatCompact } from '../format/numbers.ts'
import { valueLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import { propertyOptions } from '../page-components/property-options.ts'
import { bareOperators, isValueOf, listOf, listOperators, listText, operatorsOf } from '../state/conditions.ts'
import { useView, useViewQueries } from '../state/hooks.ts'
import { Button } from '../ui/button.tsx'
import { Combobox } from '../ui/combobox.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field, SelectField } from '../ui/field.tsx'
import { ErrorPanel } from '../ui/states.tsx'

interface Props {
  /** The condition that is edited; undefined for a new one. */
  condition: Condition | undefined
  /** Whether the page has room for the condition among its filters; default: always. */
  hasRoom?: (condition: Condition) => boolean
  onApply: (condition: Condition) => void
  onRemove: () => void
  onClose: () => void
}

const textOf = (value: string | string[] | undefined) => (Array.isArray(value) ? listText(value) : (value ?? ''))

/** Chooses a property, an operator and values; values are those that recent events had. */
export function FilterDialog({ condition, hasRoom = () => true, onApply, onRemove, onClose }: Props) {
  const { siteId } = useView()
  const { environment } = useViewQueries()
  const observed = useApi('properties', { query: { site_id: siteId, environment } }, { staleMs: 300_000 })
  const [property, setProperty] = useState(condition?.property ?? 'path')
  const [operator, setOperator] = useState<Operator>(condition?.operator ?? 'equals')
  const [value, setValue] = useState(textOf(condition?.value))
  const [isMissing, setMissing] = useState(false)
  const [error, setError] = useState<string>()
  const names = observed.data?.properties ?? []
  const isList = isOneOf(listOperators, operator)
  const isBare = isOneOf(bareOperators, operator)
  const known = names.find((each) => each.name === property)?.values ?? []
  const chooseOperator = (chosen: Operator) => {
    const isOfList = isOneOf(listOperators, chosen)
    if (isOfList && !isList) setValue(listText([value]))
    if (!isOfList && isList) setValue(listOf(value)[0] ?? '')
    setOperator(chosen)
  }
  const submit = () => {
    const given = isOneOf(numberOperators, operator) ? value.trim() : value
    // A name without a prefix that is not a field is meant as a property of the events.
    const named = propertyOf(property) === undefined ? `${propertyPrefix}${property}` : property
    if (property === '') setMissing(true)
    else if (isBare) onApply({ property: named, operator })
    else if (isList && listOf(value).length === 0) setError(messages.filters.missingValue)
    else if (!isList && given === '') setError(messages.filters.missingValue)
    else if (!isValueOf(operator, given)) setError(messages.filters.invalidValue(operator === 'matches'))
    else {
      const next: Condition = { property: named, operator, value: isList ? listOf(value) : given }
      if (hasRoom(next)) onApply(next)
      else setError(messages.filters.tooLong)
    }
  }
  return (
    <Dialog title={messages.filters.title} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        <ErrorPanel error={observed.error} onRetry={observed.retry} />
        <Field label={messages.filters.property} error={isMissing ? messages.filters.missingProperty : undefined}>
          {(attributes) => (
            <Combobox
              isFree
              attributes={attributes}
              value={property}
              options={propertyOptions(names)}
              onChange={(chosen) => {
                setProperty(chosen)
                if (!operatorsOf(chosen).includes(operator)) chooseOperator('equals')
                setMissing(false)
                setError(undefined)
              }}
            />
          )}
        </Field>
        <SelectField
          label={messages.filters.operator}
          value={operator}
          options={operatorsOf(property).map((each) => ({ value: each, label: messages.filters.operators[each] }))}
          onChange={chooseOperator}
        />
        {isBare ? null : (
          <Field label={isList ? messages.filters.values : messages.filters.value} error={error}>
            {(attributes) =>
              isList ? (
                <input
                  {...attributes}
                  class="input"
                  value={value}
                  onInput={(event) => {
                    setValue(event.currentTarget.value)
                    setError(undefined)
                  }}
                />
              ) : (
                <Combobox
                  isFree
                  key={property}
                  attributes={attributes}
                  value={value}
                  options={known.map((each) => ({
                    value: each.value,
                    label: valueLabel(property, each.value),
                    detail: formatCompact(each.count),
                  }))}
                  onChange={(chosen) => {
                    setValue(chosen)
                    setError(undefined)
                  }}
                />
              )
            }
          </Field>
        )}
        <div class="dialog-actions">
          {condition === undefined ? null : (
            <Button kind="quiet" onClick={onRemove}>
              {messages.filters.removeButton}
            </Button>
          )}
          <Button onClick={onClose}>{messages.bar.cancel}</Button>
          <Button kind="primary" type="submit">
            {messages.filters.apply}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

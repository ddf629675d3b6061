import { useState } from 'preact/hooks'
import {
  type Condition,
  conditionLimits,
  type Criteria,
  isCriteria,
  isOneOf,
  operators,
} from '@sluice/contracts/conditions'
import type { ObservedProperty } from '@sluice/contracts/observed-properties'
import { formatCompact } from '../../format/numbers.ts'
import { valueLabel } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { propertyOptions } from '../../page-components/property-options.ts'
import { bareOperators, listOf, listOperators, listText } from '../../state/conditions.ts'
import { Button } from '../../ui/button.tsx'
import { Combobox } from '../../ui/combobox.tsx'
import type { ControlAttributes } from '../../ui/field.tsx'
import { Select } from '../../ui/select.tsx'
import { emptyCondition, hasRoom, type Path, replaced, valueFor } from './criteria.ts'
import { texts } from './messages.ts'

export interface BuilderProps {
  criteria: Criteria
  onChange: (criteria: Criteria) => void
  /** Names and values that recent events had. */
  observed: readonly ObservedProperty[]
  /** The id of the sentence that says that fields are empty: they are marked. */
  problemId: string | undefined
}

/** Attributes of a field that is empty, but must not be. */
type Marks = Partial<Pick<ControlAttributes, 'aria-describedby' | 'aria-invalid'>>

interface Editor extends BuilderProps {
  replace: (path: Path, ...items: (Condition | Criteria)[]) => void
}

/** Criteria as a sentence: `Users who in one event have all of these: …`, with groups in groups. */
export function Builder(props: BuilderProps) {
  const { criteria, onChange } = props
  const scope = criteria.scope ?? 'event'
  const editor: Editor = {
    ...props,
    replace: (path, ...items) => {
      const next = replaced(criteria, path, ...items)
      onChange(next.conditions.length === 0 ? { ...next, conditions: [emptyCondition] } : next)
    },
  }
  return (
    <div class="builder">
      <p class="builder-line">
        <span>{texts.usersWho}</span>
        <Select
          name={texts.scopeLabel}
          value={scope}
          options={(['event', 'user'] as const).map((value) => ({ value, label: texts.scopes[value] }))}
          onChange={(value) => {
            onChange({ ...criteria, scope: value })
          }}
        />
        <span>{texts.have}</span>
        <TypeChoice
          type={criteria.type}
          onChange={(type) => {
            onChange({ ...criteria, type })
          }}
        />
        <span class="muted small">{texts.scopeHints[scope]}</span>
      </p>
      <Items editor={editor} criteria={criteria} path={[]} />
      {hasRoom(criteria) ? null : <p class="muted small">{texts.full}</p>}
    </div>
  )
}

function TypeChoice({ type, onChange }: { type: Criteria['type']; onChange: (type: Criteria['type']) => void }) {
  return (
    <Select
      name={texts.typeLabel}
      value={type}
      options={[
        { value: 'and', label: texts.allOf },
        { value: 'or', label: texts.anyOf },
      ]}
      onChange={onChange}
    />
  )
}

function Items({ editor, criteria, path }: { editor: Editor; criteria: Criteria; path: Path }) {
  const { type, conditions } = criteria
  const add = (item: Condition | Criteria) => {
    if (path.length === 0) editor.onChange({ ...criteria, conditions: [...conditions, item] })
    else editor.replace(path, { ...criteria, conditions: [...conditions, item] })
  }
  return (
    <div class="builder-items">
      {conditions.map((each, at) => {
        const place = [...path, at]
        return (
          <div key={at} class="builder-item">
            <span class="label joiner">{at === 0 ? '' : texts.joiners[type]}</span>
            {isCriteria(each) ? (
              <div class="builder-group">
                <p class="builder-line">
                  <TypeChoice
                    type={each.type}
                    onChange={(next) => {
                      editor.replace(place, { ...each, type: next })
                    }}
                  />
                  <Button kind="quiet" icon="x" isIconOnly onClick={() => editor.replace(place)}>
                    {texts.removeGroup}
                  </Button>
                </p>
                <Items editor={editor} criteria={each} path={place} />
              </div>
            ) : (
              <ConditionRow editor={editor} condition={each} path={place} />
            )}
          </div>
        )
      })}
      {hasRoom(editor.criteria) ? (
        <p class="builder-add">
          <button type="button" class="link-button" onClick={() => add(emptyCondition)}>
            {texts.addCondition}
          </button>
          {path.length + 1 >= conditionLimits.criteriaDepthMax ? null : (
            <button
              type="button"
              class="link-button"
              onClick={() => {
                add({ type: type === 'and' ? 'or' : 'and', conditions: [emptyCondition] })
              }}
            >
              {texts.addGroup}
            </button>
          )}
        </p>
      ) : null}
    </div>
  )
}

function ConditionRow({ editor, condition, path }: { editor: Editor; condition: Condition; path: Path }) {
  const { property, operator } = condition
  const { observed, problemId } = editor
  const isEmpty = (condition.value ?? '').length === 0
  const marksOf = (isMarked: boolean): Marks =>
    problemId !== undefined && isMarked ? { 'aria-invalid': 'true', 'aria-describedby': problemId } : {}
  const change = (patch: Partial<Condition>) => {
    editor.replace(path, { ...condition, ...patch })
  }
  return (
    <div class="condition-row">
      <Combobox
        isFree
        name={texts.property}
        placeholder={texts.property}
        attributes={marksOf(property === '')}
        value={property}
        options={propertyOptions(observed)}
        onChange={(chosen) => {
          change({ property: chosen })
        }}
      />
      <Select
        name={texts.operator}
        value={operator}
        options={operators.map((each) => ({ value: each, label: messages.filters.operators[each] }))}
        onChange={(chosen) => {
          change({ operator: chosen, value: valueFor(chosen, condition.value) })
        }}
      />
      {isOneOf(bareOperators, operator) ? (
        <span />
      ) : isOneOf(listOperators, operator) ? (
        <ListInput
          marks={marksOf(isEmpty)}
          values={[condition.value ?? []].flat()}
          onChange={(value) => {
            change({ value })
          }}
        />
      ) : (
        <Combobox
          key={property}
          isFree
          name={texts.value}
          placeholder={texts.value}
          attributes={marksOf(isEmpty)}
          value={typeof condition.value === 'string' ? condition.value : ''}
          options={(observed.find(({ name }) => name === property)?.values ?? []).map(({ value, count }) => ({
            value,
            label: valueLabel(property, value),
            detail: formatCompact(count),
          }))}
          onChange={(value) => {
            change({ value })
          }}
        />
      )}
      <Button kind="quiet" icon="x" isIconOnly onClick={() => editor.replace(path)}>
        {texts.removeCondition}
      </Button>
    </div>
  )
}

/** A field for several values; it keeps the text while one types. */
function ListInput({
  values,
  marks,
  onChange,
}: {
  values: readonly string[]
  marks: Marks
  onChange: (values: string[]) => void
}) {
  const [typed, setTyped] = useState(listText(values))
  // Another condition takes the row when one before it is removed.
  const text = isSameList(listOf(typed), values) ? typed : listText(values)
  return (
    <input
      {...marks}
      class="input"
      aria-label={texts.values}
      placeholder={texts.values}
      value={text}
      onInput={({ currentTarget }) => {
        setTyped(currentTarget.value)
        onChange(listOf(currentTarget.value))
      }}
    />
  )
}

const isSameList = (one: readonly string[], other: readonly string[]) => JSON.stringify(one) === JSON.stringify(other)

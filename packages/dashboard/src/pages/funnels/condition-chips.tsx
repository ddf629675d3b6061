import { useState } from 'preact/hooks'
import { type Condition, type Criteria, isCriteria } from '@sluice/contracts/conditions'
import { FilterDialog } from '../../app/filter-dialog.tsx'
import { conditionLabel } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { Icon } from '../../ui/icon.tsx'
import { texts } from './messages.ts'

interface ConditionChipsProps<T extends Condition | Criteria> {
  conditions: readonly T[]
  onChange: (conditions: (T | Condition)[]) => void
  /** The accessible name of the button that adds a condition, where there are several. */
  addLabel?: string
}

/**
 * Conditions that must all be met as chips, each to be edited or removed, and a button that adds one. Groups, which
 * other programs make, can only be removed.
 */
export function ConditionChips<T extends Condition | Criteria>({
  conditions,
  onChange,
  addLabel,
}: ConditionChipsProps<T>) {
  const [edited, setEdited] = useState<number>()
  const remove = (at: number) => {
    setEdited(undefined)
    onChange(conditions.filter((_, other) => other !== at))
  }
  const opened = edited === undefined ? undefined : conditions[edited]
  return (
    <div class="condition-chips">
      {conditions.map((condition, at) => {
        const text = isCriteria(condition) ? texts.group : conditionLabel(condition)
        const label = <bdi class="truncate">{text}</bdi>
        return (
          <span key={at} class="condition-chip">
            <span class="muted small">{at === 0 ? texts.where : texts.and}</span>
            <span class="chip">
              {isCriteria(condition) ? (
                <span class="chip-text">{label}</span>
              ) : (
                <button
                  type="button"
                  class="chip-text"
                  aria-label={messages.filters.edit(text)}
                  onClick={() => setEdited(at)}
                >
                  {label}
                </button>
              )}
              <button
                type="button"
                class="chip-remove"
                aria-label={messages.filters.remove(text)}
                onClick={() => remove(at)}
              >
                <Icon name="x" size={14} />
              </button>
            </span>
          </span>
        )
      })}
      <button
        type="button"
        class="link-button small"
        aria-label={addLabel}
        onClick={() => setEdited(conditions.length)}
      >
        {texts.addCondition}
      </button>
      {edited === undefined ? null : (
        <FilterDialog
          condition={opened === undefined || isCriteria(opened) ? undefined : opened}
          onClose={() => setEdited(undefined)}
          onApply={(condition) => {
            setEdited(undefined)
            onChange([...conditions.slice(0, edited), condition, ...conditions.slice(edited + 1)])
          }}
          onRemove={() => remove(edited)}
        />
      )}
    </div>
  )
}

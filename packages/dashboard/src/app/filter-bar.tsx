import { useEffect, useState } from 'preact/hooks'
import type { Condition } from '@sluice/contracts/conditions'
import { conditionLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import { useView } from '../state/hooks.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { FilterDialog } from './filter-dialog.tsx'
import { useShortcut } from './shortcuts.tsx'

/** The keys of the filters, also where a narrow page shows none: `/` adds one, Escape removes the last one. */
export function FilterShortcuts() {
  const { filters, setView } = useView()
  const [isAdding, setAdding] = useState(false)
  useShortcut('/', messages.shortcuts.filter, () => setAdding(true))
  useShortcut('Escape', messages.shortcuts.dropFilter, () => {
    if (filters.length > 0) setView({ filters: filters.slice(0, -1) })
  })
  return isAdding ? <EditedFilter at={filters.length} onClose={() => setAdding(false)} /> : null
}

/** The filters as chips, each to be edited or removed, and a button that adds one. */
export function FilterBar() {
  const { filters, setView } = useView()
  const [edited, setEdited] = useState<number>()
  return (
    <>
      <Button kind="quiet" icon="list-filter" title={messages.bar.addFilter} onClick={() => setEdited(filters.length)}>
        {messages.bar.filter}
      </Button>
      {filters.length === 0 ? null : (
        <div class="chips">
          {filters.map((each, at) => {
            const text = conditionLabel(each)
            return (
              <span class="chip" key={at}>
                <button
                  type="button"
                  class="chip-text"
                  aria-label={messages.filters.edit(text)}
                  title={text}
                  onClick={() => setEdited(at)}
                >
                  <bdi class="truncate">{text}</bdi>
                </button>
                <button
                  type="button"
                  class="chip-remove"
                  aria-label={messages.filters.remove(text)}
                  onClick={() => {
                    setView({ filters: filters.filter((_, other) => other !== at) })
                  }}
                >
                  <Icon name="x" size={14} />
                </button>
              </span>
            )
          })}
        </div>
      )}
      {edited === undefined ? null : <EditedFilter at={edited} onClose={() => setEdited(undefined)} />}
    </>
  )
}

/** The dialog of the filter at a place; at the end of the list, of a new one. */
function EditedFilter({ at, onClose }: { at: number; onClose: () => void }) {
  const { filters, setView, hasRoom } = useView()
  const present = JSON.stringify(filters)
  const [opened] = useState(present)
  // After Back, another filter may be at the place, which must not be overwritten.
  useEffect(() => {
    if (present !== opened) onClose()
  }, [present])
  const set = (next: Condition[]) => {
    onClose()
    setView({ filters: next })
  }
  const withCondition = (condition: Condition) =>
    filters[at] === undefined
      ? [...filters, condition]
      : filters.map((each, other) => (other === at ? condition : each))
  return (
    <FilterDialog
      condition={filters[at]}
      onClose={onClose}
      hasRoom={(condition) => hasRoom(withCondition(condition))}
      onApply={(condition) => set(withCondition(condition))}
      onRemove={() => set(filters.filter((_, other) => other !== at))}
    />
  )
}

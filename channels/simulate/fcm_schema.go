package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fcmSchema is what a request may hold, by its path, in the names of the proto
// file. An object that is not here may hold anything.
// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
func fcmSchema(path string) ([]string, bool) {
	switch path {
	case "":
		return []string{"message", "validate_only"}, true
	case "message":
		return []string{"name", "data", "notification", "android", "webpush", "apns", "fcm_options", "token", "topic", "condition"}, true
	case "message.notification":
		return []string{"title", "body", "image"}, true
	case "message.android":
		return []string{"collapse_key", "priority", "ttl", "restricted_package_name", "data", "notification", "fcm_options",
			"direct_boot_ok", "bandwidth_constrained_ok", "restricted_satellite_ok"}, true
	case "message.android.notification":
		return []string{"title", "body", "icon", "color", "sound", "tag", "click_action", "body_loc_key", "body_loc_args",
			"title_loc_key", "title_loc_args", "channel_id", "ticker", "sticky", "event_time", "local_only", "notification_priority",
			"default_sound", "default_vibrate_timings", "default_light_settings", "vibrate_timings", "visibility",
			"notification_count", "light_settings", "image", "bypass_proxy_notification", "proxy"}, true
	case "message.apns":
		return []string{"headers", "payload", "fcm_options", "live_activity_token"}, true
	case "message.webpush":
		return []string{"headers", "data", "notification", "fcm_options"}, true
	case "message.webpush.fcm_options":
		return []string{"link", "analytics_label"}, true
	case "message.fcm_options", "message.android.fcm_options":
		return []string{"analytics_label"}, true
	case "message.apns.fcm_options":
		return []string{"analytics_label", "image"}, true
	}
	return nil, false
}

// ofStrings are the maps whose values are strings.
func ofStrings(path string) bool {
	switch path {
	case "message.data", "message.android.data", "message.webpush.data", "message.webpush.headers", "message.apns.headers":
		return true
	}
	return false
}

// conform returns the object with its names as in the proto file, or Google's
// refusal. Names may be written in either of the two ways that its JSON knows.
func conform(path string, object map[string]any) (map[string]any, *answer) {
	if ofStrings(path) {
		return object, checkStrings(path, object)
	}
	names, known := fcmSchema(path)
	if !known {
		return object, nil
	}
	result := make(map[string]any, len(object))
	for _, written := range slices.Sorted(maps.Keys(object)) {
		name, value := snake(written), object[written]
		if !slices.Contains(names, name) {
			return nil, badField(path, fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", written, path))
		}
		below := strings.TrimPrefix(path+"."+name, ".")
		inner, isObject := value.(map[string]any)
		_, wantsObject := fcmSchema(below)
		wantsObject = wantsObject || ofStrings(below) || name == "payload"
		switch {
		case value == nil:
			continue
		case wantsObject && !isObject:
			return nil, badField(below, fmt.Sprintf("Invalid value at '%s', %s", below, mustJSON(value)))
		case isObject:
			var refused *answer
			if value, refused = conform(below, inner); refused != nil {
				return nil, refused
			}
		case isText(name) && !isString(value):
			return nil, badField(below, fmt.Sprintf("Invalid value at '%s' (TYPE_STRING), %s", below, mustJSON(value)))
		}
		result[name] = value
	}
	return result, nil
}

// isText reports whether a field is a string: all but a few are.
func isText(name string) bool {
	switch name {
	case "title", "body", "image", "token", "topic", "condition", "name", "collapse_key", "priority", "ttl", "tag", "sound", "link", "icon", "color":
		return true
	}
	return false
}

func isString(v any) bool { _, ok := v.(string); return ok }

// checkStrings refuses what is not a string, by its place in the sorted map.
func checkStrings(path string, object map[string]any) *answer {
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if !isString(object[name]) {
			place := fmt.Sprintf("%s[%d].value", path, i)
			return badField(place, fmt.Sprintf("Invalid value at '%s' (TYPE_STRING), %s", place, mustJSON(object[name])))
		}
	}
	return nil
}

// snake writes collapseKey as collapse_key.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

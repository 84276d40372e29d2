package redisaudit

import "strconv"

const (
	// slots is how many slots a cluster has.
	slots = 16384
	// clusterMarkers is how many markers a cluster has, evenly over its slots:
	// each of its primaries has one, as long as its share of the slots is not
	// far below a sixteenth.
	clusterMarkers = 16
)

// markerKeys names the markers: one, or those of a cluster.
func markerKeys(ledgerID string, cluster bool) []string {
	if !cluster {
		return []string{"{" + ledgerID + "}:marker"}
	}
	keys := make([]string, clusterMarkers)
	for i, left := 0, clusterMarkers; left > 0; i++ {
		tag := ledgerID + "/" + strconv.Itoa(i)
		if n := slot(tag) / (slots / clusterMarkers); keys[n] == "" {
			keys[n] = "{" + tag + "}:marker"
			left--
		}
	}
	return keys
}

// slot is the slot of a hash tag: CRC16 (XMODEM) modulo their number, as the
// cluster specification has it.
func slot(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
